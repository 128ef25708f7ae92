// Dropout, inverted form: in training y = m∘x/(1 − p) with m ~ Bernoulli(1 − p), when scoring y = x. (Kaldi's form
// leaves out the factor in training and multiplies by 1 − p when scoring; the expectation is the same up to that
// factor, and inverted needs nothing at run time.)
//
// Masks depend on (seed, step, layer, frame, dimension) alone, never on threads. ExecContext::dropout_factor multiplies
// p. `per-frame` drops whole frames of this layer instead of single values. Source: Srivastava et al., JMLR 2014.
#include <algorithm>
#include <array>
#include <cmath>

#include "nn/layer.h"
#include "nn/layers/mask_key.h"

namespace antiphon::nn {
namespace {

struct DropoutOptions {
  double proportion = 0.2;
  bool per_frame = false;
  template <class V>
  void Visit(V& v) {
    v("proportion", proportion, Range{0, 0.999}, "share of the values that are set to zero");
    v("per-frame", per_frame, "keep or drop all values of a frame together");
  }
};

class Dropout : public Layer {
 public:
  Dropout(const LayerArgs& args, const DropoutOptions& options)
      : Layer(args.in_dim, args.in_dim), options_(options), layer_(args.index) {}
  Config ToConfig() const override { return OptionsToConfig(options_); }
  bool in_place() const override { return true; }
  bool has_tangent() const override { return true; }

 protected:
  void DoForward(const ExecContext& ctx, ConstMatrixView x, MatrixView y, Workspace&) const override {
    Apply(ctx, x, y);
  }
  void DoBackward(const ExecContext& ctx, ConstMatrixView dy, Workspace&, MatrixView dx, GradientSink&) override {
    if (dx.data() != nullptr) Apply(ctx, dy, dx);
  }

 private:
  // The mask is drawn again in the backward pass instead of being kept.
  void Apply(const ExecContext& ctx, ConstMatrixView x, MatrixView y) const {
    const double p = ctx.training ? std::clamp(options_.proportion * ctx.dropout_factor, 0.0, 0.999) : 0.0;
    const auto threshold = static_cast<uint32_t>(p * 4294967296.0);
    const float keep = static_cast<float>(1 / (1 - p));
    const std::array<uint32_t, 2> key = MaskKey(ctx, layer_);
#pragma omp parallel for schedule(static) if (x.size() > (1 << 14))
    for (int64_t r = 0; r < x.rows(); ++r) {
      const float* in = x.Row(r).data();
      float* out = y.Row(r).data();
      if (threshold == 0) {
        if (in != out) std::copy_n(in, x.cols(), out);
        continue;
      }
      const auto row = static_cast<uint32_t>(r);
      if (options_.per_frame) {
        const float factor = Philox({0, row, 0, 1}, key)[0] < threshold ? 0.0f : keep;
        for (int64_t c = 0; c < x.cols(); ++c) out[c] = factor * in[c];
        continue;
      }
      for (int64_t c = 0; c < x.cols(); c += 4) {
        const auto words = Philox({static_cast<uint32_t>(c), row, 0, 0}, key);
        for (int64_t i = c; i < std::min(c + 4, x.cols()); ++i) {
          out[i] = words[static_cast<size_t>(i - c)] < threshold ? 0.0f : keep * in[i];
        }
      }
    }
  }

  DropoutOptions options_;
  uint64_t layer_;
};

REGISTER_COMPONENT(LayerRegistry, "dropout", [](const LayerArgs& args) {
  return std::make_unique<Dropout>(args, ReadLayerOptions<DropoutOptions>(args));
});

}  // namespace
}  // namespace antiphon::nn
