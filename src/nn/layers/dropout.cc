// Dropout, inverted form: in training y = m∘x/(1 − p) with m ~ Bernoulli(1 − p), when scoring y = x. (Kaldi's form
// leaves out the factor in training and multiplies by 1 − p when scoring; the expectation is the same up to that
// factor, and inverted needs nothing at run time.)
//
// Masks depend on (seed, step, layer, frame, dimension) alone, never on threads. ExecContext::dropout_factor multiplies
// p. `per-frame` drops whole frames of this layer instead of single values. `per-chunk` draws one mask for all frames
// of a chunk, so that layers that look at several frames cannot fill what is missing from a neighbour. `continuous`
// multiplies by factors drawn evenly from 1 − 2p … 1 + 2p instead of 0 or 1/(1 − p), p at most 0.5.
// Source: Srivastava et al., JMLR 2014; masks of chunks and continuous ones: Kaldi's GeneralDropoutComponent, and Povey
// et al., Interspeech 2018.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "kernels/parallel.h"
#include "nn/layer.h"
#include "nn/layer_traits.h"
#include "nn/layers/mask_key.h"

namespace antiphon::nn {
namespace {

struct DropoutOptions {
  double proportion = 0.2;
  bool per_frame = false;
  bool per_chunk = false;
  bool continuous = false;
  template <class V>
  void Visit(V& v) {
    v("proportion", proportion, Range{0, 0.999}, "share of the values that are set to zero");
    v("per-frame", per_frame, "keep or drop all values of a frame together");
    v("per-chunk", per_chunk, "one mask for all frames of a chunk (data.chunk-frames)");
    v("continuous", continuous, "factors from 1 - 2·proportion to 1 + 2·proportion (proportion up to 0.5)");
  }
};

DropoutOptions CheckedDropout(const LayerArgs& args) {
  const auto options = ReadLayerOptions<DropoutOptions>(args);
  if (options.per_frame && options.per_chunk) {
    Throw<UsageError>("{}: a mask is drawn per frame or per chunk, not both", args.config.Where("per-chunk"));
  }
  if (options.continuous && options.proportion > 0.5) {
    Throw<UsageError>("{}: continuous dropout has a proportion of at most 0.5, found {}",
                      args.config.Where("proportion"), options.proportion);
  }
  return options;
}

class Dropout : public Layer {
 public:
  Dropout(const LayerArgs& args, const DropoutOptions& options)
      : Layer(args.in_dim, args.in_dim), options_(options), layer_(args.index) {}
  Config ToConfig() const override { return OptionsToConfig(options_); }
  LayerProperties properties() const override { return {.in_place = true, .symmetric = true}; }

 protected:
  void DoForward(const ExecContext& ctx, ConstMatrixView x, MatrixView y, Workspace& ws) const override {
    Apply(ctx, x, y, ws);
  }
  void DoBackward(const ExecContext& ctx, ConstMatrixView dy, Workspace& ws, MatrixView dx, GradientSink&) override {
    if (dx.data() != nullptr) Apply(ctx, dy, dx, ws);
  }

 private:
  enum Slot { kMasks };

  // Draws what one of 2³² even possibilities is multiplied by.
  struct Factors {
    bool none;
    bool continuous;
    uint32_t threshold;
    float low, step;  // of a continuous one
    float keep;
    float operator()(uint32_t word) const {
      if (continuous) return low + step * static_cast<float>(word);
      return word < threshold ? 0.0f : keep;
    }
  };
  Factors FactorsOf(const ExecContext& ctx) const {
    const double most = options_.continuous ? 0.5 : 0.999;
    const double p = ctx.training ? std::clamp(options_.proportion * ctx.dropout_factor, 0.0, most) : 0.0;
    return {.none = p == 0,
            .continuous = options_.continuous,
            .threshold = static_cast<uint32_t>(p * 4294967296.0),
            .low = static_cast<float>(1 - 2 * p),
            .step = static_cast<float>(4 * p * 0x1.0p-32),
            .keep = static_cast<float>(1 / (1 - p))};
  }

  // The mask is drawn again in the backward pass instead of being kept.
  void Apply(const ExecContext& ctx, ConstMatrixView x, MatrixView y, Workspace& ws) const {
    const Factors factors = FactorsOf(ctx);
    const std::array<uint32_t, 2> key = MaskKey(ctx, layer_);
    if (options_.per_chunk && !factors.none) return ApplyPerChunk(ctx, factors, key, x, y, ws);
    ParallelItems(x.rows(), x.size(), [&](int64_t r) {
      const float* in = x.Row(r).data();
      float* out = y.Row(r).data();
      if (factors.none) {
        if (in != out) std::copy_n(in, x.cols(), out);
        return;
      }
      const auto row = static_cast<uint32_t>(r);
      if (options_.per_frame) {
        const float factor = factors(Philox({0, row, 0, 1}, key)[0]);
        for (int64_t c = 0; c < x.cols(); ++c) out[c] = factor * in[c];
        return;
      }
      for (int64_t c = 0; c < x.cols(); c += 4) {
        const auto words = Philox({static_cast<uint32_t>(c), row, 0, 0}, key);
        for (int64_t i = c; i < std::min(c + 4, x.cols()); ++i) {
          out[i] = factors(words[static_cast<size_t>(i - c)]) * in[i];
        }
      }
    });
  }

  // Each stream's mask is drawn once for all its frames.
  void ApplyPerChunk(const ExecContext& ctx, const Factors& factors, const std::array<uint32_t, 2>& key,
                     ConstMatrixView x, MatrixView y, Workspace& ws) const {
    const int64_t streams = ctx.streams();
    const MatrixView masks = ws.Float(kMasks, streams, x.cols());
    for (int64_t s = 0; s < streams; ++s) {
      float* mask = masks.Row(s).data();
      for (int64_t c = 0; c < x.cols(); c += 4) {
        const auto words = Philox({static_cast<uint32_t>(c), static_cast<uint32_t>(s), 0, 0}, key);
        for (int64_t i = c; i < std::min(c + 4, x.cols()); ++i) mask[i] = factors(words[static_cast<size_t>(i - c)]);
      }
    }
    ParallelItems(x.rows(), x.size(), [&](int64_t r) {
      const float* in = x.Row(r).data();
      const float* mask = masks.Row(r % streams).data();
      float* out = y.Row(r).data();
      for (int64_t c = 0; c < x.cols(); ++c) out[c] = mask[c] * in[c];
    });
  }

  DropoutOptions options_;
  uint64_t layer_;
};

REGISTER_COMPONENT(LayerRegistry, "dropout",
                   [](const LayerArgs& args) { return std::make_unique<Dropout>(args, CheckedDropout(args)); });
REGISTER_COMPONENT(LayerTraitsRegistry, "dropout",
                   Traits({.units_apart = true, .scale_passes = true, .drops_units = true}));

}  // namespace
}  // namespace antiphon::nn
