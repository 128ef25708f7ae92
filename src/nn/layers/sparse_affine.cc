// y = W·x + b with most of W held at 0 by a mask, of single weights or of blocks; optionally rounded as
// `quantized-affine`.
//
// The mask [out / block-rows, in / block-cols] is a buffer of 0 and 1, all 1 at first; whoever prunes sets it. Masked
// weights are exactly 0 after every change, whatever made it (Parameter::mask), so that they stay so under momentum,
// decay, averaging and every parallel method. The model file holds the mask as bits and the other weights alone.
// Source: Yu, Seide, Li, Deng, Exploiting sparseness in deep neural networks, ICASSP 2012; algorithms reference 2.3.
#include "nn/layer_traits.h"
#include "nn/layers/affine_base.h"
#include "nn/layers/input_rounding.h"
#include "nn/layers/largest_dim.h"
#include "nn/parameter_storage.h"

namespace antiphon::nn {
namespace {

struct SparseAffineOptions {
  int dim = 0;
  int block_rows = 1;
  int block_cols = 1;
  int weight_bits = 0;
  int input_bits = 0;
  template <class V>
  void Visit(V& v) {
    v("dim", dim, Range{0, kLargestDim}, "number of outputs; 0 in the last layer: the number of senones");
    v("block-rows", block_rows, Range{1, kMostBlockValues}, "outputs of a block that is kept or zero as a whole");
    v("block-cols", block_cols, Range{1, kMostBlockValues}, "inputs of a block");
    v("weight-bits", weight_bits, Range{0, 8}, "bits of a weight: 8, or 0 for floats");
    v("input-bits", input_bits, Range{0, 8}, "bits of an input: 8, or 0 for inputs as they are");
  }
};

class SparseAffine : public AffineBase {
 public:
  SparseAffine(const LayerArgs& args, const SparseAffineOptions& options)
      : AffineBase(args, options.dim),
        options_(options),
        mask_("mask", Blocks(args, "out", out_dim(), options.block_rows),
              Blocks(args, "in", in_dim(), options.block_cols)),
        input_(options.input_bits) {
    const auto bits = [](int n) { return n == 0 || n == 8; };
    if (!bits(options.weight_bits) || !bits(options.input_bits) ||
        options.block_rows * options.block_cols > kMostBlockValues) {
      Throw<UsageError>("{}: weights and inputs have 8 bits or 0 (found {}, {}), a block at most {} weights",
                        args.config.Where(), options.weight_bits, options.input_bits, kMostBlockValues);
    }
    for (int64_t r = 0; r < mask_.value.rows(); ++r) {
      for (float& m : mask_.value.Row(r)) m = 1;
    }
    mask_.storage = Storage::kBits;
    weight_.mask = &mask_;
    if (options.weight_bits == 8) weight_.storage = Storage::kInt8;
    if (options.input_bits == 8) stored_ = {&mask_, &input_.scale, &input_.zero};
  }

  std::span<Parameter* const> buffers() override { return stored_; }
  Config ToConfig() const override { return OptionsToConfig(options_); }

 protected:
  bool changes_weight() const override { return options_.weight_bits != 0; }
  bool changes_input() const override { return input_.on(); }
  void MakeWeight(MatrixView to) const override { RoundToIntegers(weight_.value, options_.weight_bits, to); }
  void MakeInput(ConstMatrixView x, MatrixView to) const override { input_.Round(x, to); }
  void PassInput(ConstMatrixView x, MatrixView dx) const override { input_.PassDerivative(x, dx); }

 private:
  static int Blocks(const LayerArgs& args, const char* side, int dim, int block) {
    if (dim % block != 0) {
      Throw<UsageError>("{}: {} values {} cannot be divided into blocks of {}", args.config.Where(), dim, side, block);
    }
    return dim / block;
  }

  SparseAffineOptions options_;
  Parameter mask_;
  InputRounding input_;
  std::vector<Parameter*> stored_ = {&mask_};
};

REGISTER_COMPONENT(LayerRegistry, "sparse-affine", [](const LayerArgs& args) {
  return std::make_unique<SparseAffine>(args, ReadLayerOptions<SparseAffineOptions>(args));
});
REGISTER_COMPONENT(LayerTraitsRegistry, "sparse-affine", Traits({.product = LayerTraits::Product::kMasked}));

}  // namespace
}  // namespace antiphon::nn
