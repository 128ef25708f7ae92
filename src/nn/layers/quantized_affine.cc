// y = Ŵ·x̂ + b with weights rounded to 8 or 4 bits per row, and inputs to 8 bits once they are calibrated.
//
// Trains with the rounding in the loop (quantization-aware): W stays in fp32 between steps and is rounded in each pass;
// the derivative goes straight through. The model file holds the integers and a scale per row (nn/parameter_storage.h),
// so that a saved model scores as it trained and trains on from the rounded weights.
// Source: Jacob et al., Quantization and training of neural networks for efficient integer-arithmetic-only inference,
// CVPR 2018; algorithms reference 2.6.
#include "nn/layer_traits.h"
#include "nn/layers/affine_base.h"
#include "nn/layers/input_rounding.h"
#include "nn/layers/largest_dim.h"

namespace antiphon::nn {
namespace {

struct QuantizedAffineOptions {
  int dim = 0;
  int weight_bits = 8;
  int input_bits = 8;
  template <class V>
  void Visit(V& v) {
    v("dim", dim, Range{0, kLargestDim}, "number of outputs; 0 in the last layer: the number of senones");
    v("weight-bits", weight_bits, Range{4, 8}, "bits of a weight: 8 or 4");
    v("input-bits", input_bits, Range{0, 8}, "bits of an input: 8, or 0 for inputs as they are");
  }
};

class QuantizedAffine : public AffineBase {
 public:
  QuantizedAffine(const LayerArgs& args, const QuantizedAffineOptions& options)
      : AffineBase(args, options.dim), options_(options), input_(options.input_bits) {
    if ((options.weight_bits != 8 && options.weight_bits != 4) ||
        (options.input_bits != 8 && options.input_bits != 0)) {
      Throw<UsageError>("{}: weights have 8 or 4 bits and inputs 8 or 0, found {} and {}", args.config.Where(),
                        options.weight_bits, options.input_bits);
    }
    weight_.storage = options.weight_bits == 8 ? Storage::kInt8 : Storage::kInt4;
    if (options.input_bits == 8) stored_ = {&input_.scale, &input_.zero};
  }

  std::span<Parameter* const> buffers() override { return stored_; }
  Config ToConfig() const override { return OptionsToConfig(options_); }

 protected:
  bool changes_weight() const override { return true; }
  bool changes_input() const override { return input_.on(); }
  void MakeWeight(MatrixView to) const override { RoundToIntegers(weight_.value, options_.weight_bits, to); }
  void MakeInput(ConstMatrixView x, MatrixView to) const override { input_.Round(x, to); }
  void PassInput(ConstMatrixView x, MatrixView dx) const override { input_.PassDerivative(x, dx); }

 private:
  QuantizedAffineOptions options_;
  InputRounding input_;
  std::vector<Parameter*> stored_;
};

REGISTER_COMPONENT(LayerRegistry, "quantized-affine", [](const LayerArgs& args) {
  return std::make_unique<QuantizedAffine>(args, ReadLayerOptions<QuantizedAffineOptions>(args));
});
REGISTER_COMPONENT(LayerTraitsRegistry, "quantized-affine", Traits({.product = LayerTraits::Product::kRounded}));

}  // namespace
}  // namespace antiphon::nn
