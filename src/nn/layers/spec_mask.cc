// Masks for augmentation, in training only: a band of neighbouring features over the whole context window, and a span
// of neighbouring context frames, are set to 0 (the mean, behind a `normalize` layer). The network learns not to lean
// on any one band or moment.
//
// The input is a spliced window of frames with `feature-dim` values each; a band makes sense for filter-bank features.
// Each frame of the minibatch draws its own masks, which depend on (seed, step, layer, frame) alone.
// ExecContext::dropout_factor multiplies both probabilities. Source: Park et al., SpecAugment, Interspeech 2019, which
// masks whole utterances.
#include <algorithm>
#include <array>
#include <cmath>

#include "nn/layer.h"
#include "nn/layers/mask_key.h"

namespace antiphon::nn {
namespace {

struct SpecMaskOptions {
  int feature_dim = 0;
  int max_bands = 8;
  int max_frames = 4;
  double band_probability = 0.5;
  double frame_probability = 0.5;
  template <class V>
  void Visit(V& v) {
    v("feature-dim", feature_dim, Range{0, 1 << 20}, "features per frame of the window; 0: the input is one frame");
    v("max-bands", max_bands, Range{1, 1 << 20}, "widest band; the width is drawn evenly from 1 on");
    v("max-frames", max_frames, Range{1, 1 << 20}, "longest span of context frames, likewise");
    v("band-probability", band_probability, Range{0, 1}, "share of the frames that lose a band");
    v("frame-probability", frame_probability, Range{0, 1}, "share of the frames that lose a span of their context");
  }
};

// From the first to before the last.
struct Span {
  int first = 0;
  int last = 0;
};

class SpecMask : public Layer {
 public:
  SpecMask(const LayerArgs& args, const SpecMaskOptions& options)
      : Layer(args.in_dim, args.in_dim), options_(options), layer_(args.index) {
    if (options_.feature_dim == 0) options_.feature_dim = args.in_dim;
    if (args.in_dim % options_.feature_dim != 0) {
      Throw<UsageError>("{}: 'spec-mask' has feature-dim {}, which does not divide its {} inputs",
                        args.config.Where("feature-dim"), options_.feature_dim, args.in_dim);
    }
  }
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
  Span Draw(const std::array<uint32_t, 4>& words, double probability, int longest, int size) const {
    if (static_cast<double>(words[0]) * 0x1.0p-32 >= probability) return {};
    // A mask over everything would leave nothing to learn from.
    const int limit = std::min(longest, size - 1);
    if (limit < 1) return {};
    const int width = 1 + static_cast<int>(words[1] % static_cast<uint32_t>(limit));
    const int first = static_cast<int>(words[2] % static_cast<uint32_t>(size - width + 1));
    return {first, first + width};
  }

  void Apply(const ExecContext& ctx, ConstMatrixView x, MatrixView y) const {
    const int width = options_.feature_dim;
    const int frames = in_dim() / width;
    const double factor = ctx.training ? ctx.dropout_factor : 0.0;
    const std::array<uint32_t, 2> key = MaskKey(ctx, layer_);
#pragma omp parallel for schedule(static) if (x.size() > (1 << 14))
    for (int64_t r = 0; r < x.rows(); ++r) {
      const auto row = static_cast<uint32_t>(r);
      const Span band =
          Draw(Philox({0, row, 0, 2}, key), factor * options_.band_probability, options_.max_bands, width);
      const Span span =
          Draw(Philox({1, row, 0, 2}, key), factor * options_.frame_probability, options_.max_frames, frames);
      const float* in = x.Row(r).data();
      float* out = y.Row(r).data();
      if (in != out) std::copy_n(in, x.cols(), out);
      for (int t = 0; t < frames; ++t) {
        float* frame = out + static_cast<int64_t>(t) * width;
        if (t >= span.first && t < span.last) {
          std::fill_n(frame, width, 0.0f);
        } else {
          std::fill(frame + band.first, frame + band.last, 0.0f);
        }
      }
    }
  }

  SpecMaskOptions options_;
  uint64_t layer_;
};

REGISTER_COMPONENT(LayerRegistry, "spec-mask", [](const LayerArgs& args) {
  return std::make_unique<SpecMask>(args, ReadLayerOptions<SpecMaskOptions>(args));
});

}  // namespace
}  // namespace antiphon::nn
