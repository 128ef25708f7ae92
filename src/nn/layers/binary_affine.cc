// y = α∘(sign(W)·x) + b with one bit per weight and α = mean |w| of the row; optionally x too by sign and mean |x| of
// the frame.
//
// Trains the latent W by the straight-through rule, held within [-1, 1]; sign 0 = +1. With `binary-input` the
// derivative passes where |x| ≤ 1, so put a batch normalisation below. The model file holds the signs and α alone: a
// loaded model scores the same and trains on from ±α.
// Source: Hubara et al., Binarized neural networks, NIPS 2016; Rastegari et al., XNOR-Net, ECCV 2016; algorithms
// reference 2.8.
#include <cmath>

#include "nn/layer_traits.h"
#include "nn/layers/affine_base.h"
#include "nn/layers/largest_dim.h"
#include "nn/quantize.h"

namespace antiphon::nn {
namespace {

struct BinaryAffineOptions {
  int dim = 0;
  bool binary_input = false;
  template <class V>
  void Visit(V& v) {
    v("dim", dim, Range{0, kLargestDim}, "number of outputs; 0 in the last layer: the number of senones");
    v("binary-input", binary_input, "inputs too by their sign, times the frame's mean absolute input");
  }
};

class BinaryAffine : public AffineBase {
 public:
  BinaryAffine(const LayerArgs& args, const BinaryAffineOptions& options)
      : AffineBase(args, options.dim), options_(options) {
    weight_.limit = 1;
    weight_.decay_factor = 0;
    weight_.storage = Storage::kSigns;
  }
  Config ToConfig() const override { return OptionsToConfig(options_); }

 protected:
  bool changes_weight() const override { return true; }
  bool changes_input() const override { return options_.binary_input; }
  void MakeWeight(MatrixView to) const override { RoundToSigns(weight_.value, to); }
  // One scale per frame, as one scale per row of weights.
  void MakeInput(ConstMatrixView x, MatrixView to) const override { RoundToSigns(x, to); }
  void PassInput(ConstMatrixView x, MatrixView dx) const override {
    for (int64_t n = 0; n < x.rows(); ++n) {
      for (int64_t c = 0; c < x.cols(); ++c) {
        if (std::abs(x(n, c)) > 1) dx(n, c) = 0;
      }
    }
  }

 private:
  BinaryAffineOptions options_;
};

REGISTER_COMPONENT(LayerRegistry, "binary-affine", [](const LayerArgs& args) {
  return std::make_unique<BinaryAffine>(args, ReadLayerOptions<BinaryAffineOptions>(args));
});
REGISTER_COMPONENT(LayerTraitsRegistry, "binary-affine", Traits({.product = LayerTraits::Product::kCompact}));

}  // namespace
}  // namespace antiphon::nn
