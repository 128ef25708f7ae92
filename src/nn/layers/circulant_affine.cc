// y = W·x + b with W of blocks that repeat one column, turned by one place from column to column: in/block values are
// stored where a dense layer has in.
//
// weight [⌈out/block⌉, in]: the block of outputs i·block … and inputs j·block … is W[r][s] = weight(i, j·block + (r −
// s) mod block), so that a block's product is a circular convolution with its first column, which the runtime does by
// FFT with cached spectra. Here the blocks are written out and go through the usual products. Rows beyond `out` are cut
// off. The gradient of a stored value is the sum over its `block` places; its rate is divided by √block to go with the
// other layers'. Source: Ding et al., CirCNN, MICRO 2017; algorithms reference 2.9.
#include <cmath>

#include "nn/layer.h"
#include "nn/layer_traits.h"
#include "nn/layers/largest_dim.h"

namespace antiphon::nn {
namespace {

struct CirculantAffineOptions {
  int dim = 0;
  int block = 8;
  template <class V>
  void Visit(V& v) {
    v("dim", dim, Range{0, kLargestDim}, "number of outputs; 0 in the last layer: the number of senones");
    v("block", block, Range{1, 4096}, "side of a circulant block; the number of inputs must be a multiple of it");
  }
};

class CirculantAffine : public Layer {
 public:
  CirculantAffine(const LayerArgs& args, const CirculantAffineOptions& options)
      : Layer(args.in_dim, CheckedDim(args, options)),
        block_(options.block),
        options_(options),
        weight_("weight", (out_dim() + block_ - 1) / block_, in_dim()),
        bias_("bias", 1, out_dim()) {
    bias_.decay_factor = 0;
    bias_.weight = &weight_;
    weight_.learning_rate_factor = static_cast<float>(1 / std::sqrt(static_cast<double>(block_)));
    if (!args.random_values) return;
    const double deviation = 1 / std::sqrt(static_cast<double>(in_dim()));
    Rng rng(args.seed);
    for (int64_t r = 0; r < weight_.value.rows(); ++r) {
      for (float& w : weight_.value.Row(r)) w = static_cast<float>(deviation * rng.Normal());
    }
  }

  std::span<Parameter* const> parameters() override { return trained_; }
  Config ToConfig() const override { return OptionsToConfig(options_); }
  Activation* absorbed_activation() override { return &activation_; }

 protected:
  // In fp32 whatever the context says: the written-out matrix is made anew in each pass.
  void DoForward(const ExecContext&, ConstMatrixView x, MatrixView y, Workspace& ws) const override {
    const MatrixView dense = ws.Float(kDense, out_dim(), in_dim());
    for (int64_t r = 0; r < dense.rows(); ++r) {
      const float* stored = weight_.value.Row(r / block_).data();
      float* out = dense.Row(r).data();
      for (int64_t c = 0; c < dense.cols(); ++c) out[c] = stored[Place(r, c)];
    }
    Gemm(Transpose::kNo, x, Transpose::kYes, dense, y, {.bias = bias_.value.data(), .activation = activation_});
  }

  void DoBackward(const ExecContext&, ConstMatrixView dy, Workspace& ws, MatrixView dx, GradientSink& sink) override {
    const MatrixView dense = ws.Float(kDense);
    if (dx.data() != nullptr) Gemm(Transpose::kNo, dy, Transpose::kNo, dense, dx);
    if (weight_.learning_rate_factor == 0) return;
    // The written-out weights are not needed any more: their gradient takes their place.
    FactorProduct({.x = ws.x, .g = dy, .x16 = {}, .g16 = {}, .bias_input = {}}, 0, 0.0f, dense);
    const MatrixView sums = ws.Float(kSums, weight_.value.rows(), weight_.value.cols());
    for (int64_t r = 0; r < sums.rows(); ++r) std::fill_n(sums.Row(r).data(), sums.cols(), 0.0f);
    for (int64_t r = 0; r < dense.rows(); ++r) {
      float* sum = sums.Row(r / block_).data();
      const float* g = dense.Row(r).data();
      for (int64_t c = 0; c < dense.cols(); ++c) sum[Place(r, c)] += g[c];
    }
    const MatrixView bias = ws.Float(kBias, 1, out_dim());
    BiasGradient({.x = ws.x, .g = dy, .x16 = {}, .g16 = {}, .bias_input = {}}, 1.0f, 0.0f, bias);
    sink.TakeDense(bias_, bias);
    sink.TakeDense(weight_, sums);
  }

 private:
  enum Slot { kDense, kSums, kBias };

  static int CheckedDim(const LayerArgs& args, const CirculantAffineOptions& options) {
    const int dim = options.dim == 0 ? args.default_out_dim : options.dim;
    if (dim <= 0 || args.in_dim % options.block != 0) {
      Throw<UsageError>("{}: '{}' needs `dim` (found {}) and inputs (found {}) that are a multiple of `block` ({})",
                        args.config.Where(), args.config.RequiredText("type"), dim, args.in_dim, options.block);
    }
    return dim;
  }

  // Of the stored row r / block, the value that stands at (r, c).
  int64_t Place(int64_t r, int64_t c) const {
    const int64_t first = c / block_ * block_;
    return first + (r - c % block_ + block_) % block_;
  }

  int64_t block_;
  CirculantAffineOptions options_;
  Activation activation_ = Activation::kNone;
  Parameter weight_;
  Parameter bias_;
  std::vector<Parameter*> trained_ = {&weight_, &bias_};
};

REGISTER_COMPONENT(LayerRegistry, "circulant-affine", [](const LayerArgs& args) {
  return std::make_unique<CirculantAffine>(args, ReadLayerOptions<CirculantAffineOptions>(args));
});
REGISTER_COMPONENT(LayerTraitsRegistry, "circulant-affine", Traits({.product = LayerTraits::Product::kCompact}));

}  // namespace
}  // namespace antiphon::nn
