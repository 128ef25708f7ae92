// Masks for augmentation, in training only: a band of neighbouring features over the whole context window, and a span
// of neighbouring context frames, are set to 0 (the mean, behind a `normalize` layer). The network learns not to lean
// on any one band or moment.
//
// The input is a spliced window of frames with `feature-dim` values each; a band makes sense for filter-bank features.
// Each frame of the minibatch draws its own masks, which depend on (seed, step, layer, frame) alone.
// ExecContext::dropout_factor multiplies both probabilities.
//
// With `per-chunk` the input is one frame, of which the first `feature-dim` columns are masked (others, a speaker's
// vector, stay), and every chunk of the minibatch draws one band for all its frames, and runs of frames, each at most
// `max-frames` long (two may touch), that are together up to `max-frame-share` of the chunk, the frames around it
// included.
// Source: Park et al., SpecAugment, Interspeech 2019, which masks whole utterances; per chunk as in Kaldi's
// spec-augment-layer.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "kernels/elementwise.h"
#include "kernels/parallel.h"
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
  bool per_chunk = false;
  double max_frame_share = 0.2;
  template <class V>
  void Visit(V& v) {
    v("feature-dim", feature_dim, Range{0, 1 << 20}, "features per frame of the window; 0: the input is one frame");
    v("max-bands", max_bands, Range{1, 1 << 20}, "widest band; the width is drawn evenly from 1 on");
    v("max-frames", max_frames, Range{1, 1 << 20}, "longest span of context frames, likewise");
    v("band-probability", band_probability, Range{0, 1}, "share of the frames that lose a band");
    v("frame-probability", frame_probability, Range{0, 1}, "share of the frames that lose a span of their context");
    v("per-chunk", per_chunk, "masks are drawn for whole chunks (data.chunk-frames), of which the rows are frames");
    v("max-frame-share", max_frame_share, Range{0, 0.9},
      "per chunk: largest share of its frames that is masked, in runs of up to max-frames, of which two may touch; "
      "drawn evenly from 0 on");
  }
};

// From the first to before the last.
struct Span {
  int first = 0;
  int last = 0;
};

// Keys that the layer refuses without `per-chunk`.
Config WithoutChunkKeys(const Config& config) {
  Config rest;
  for (const std::string& key : config.Keys()) {
    if (key != "max-frame-share") rest.Set(key, *config.AnyAsText(key));
  }
  return rest;
}

class SpecMask : public Layer {
 public:
  SpecMask(const LayerArgs& args, const SpecMaskOptions& options)
      : Layer(args.in_dim, args.in_dim), options_(options), layer_(args.index) {
    if (options_.feature_dim == 0) options_.feature_dim = args.in_dim;
    if (options_.per_chunk ? options_.feature_dim > args.in_dim : args.in_dim % options_.feature_dim != 0) {
      Throw<UsageError>("{}: 'spec-mask' has feature-dim {}, of which its {} inputs are no window",
                        args.config.Where("feature-dim"), options_.feature_dim, args.in_dim);
    }
    if (!options_.per_chunk && args.config.Has("max-frame-share")) {
      Throw<UsageError>("{}: 'max-frame-share' is for masks of whole chunks: set per-chunk, or leave it out",
                        args.config.Where("max-frame-share"));
    }
  }
  Config ToConfig() const override {
    Config config = OptionsToConfig(options_);
    return options_.per_chunk ? config : WithoutChunkKeys(config);
  }
  LayerProperties properties() const override { return {.in_place = true, .symmetric = true}; }

 protected:
  void DoForward(const ExecContext& ctx, ConstMatrixView x, MatrixView y, Workspace&) const override {
    options_.per_chunk ? ApplyPerChunk(ctx, x, y) : Apply(ctx, x, y);
  }
  void DoBackward(const ExecContext& ctx, ConstMatrixView dy, Workspace&, MatrixView dx, GradientSink&) override {
    if (dx.data() == nullptr) return;
    options_.per_chunk ? ApplyPerChunk(ctx, dy, dx) : Apply(ctx, dy, dx);
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

  // Runs of frames that a chunk of `frames` loses, in order: their number and the places between them are drawn.
  std::vector<Span> DrawRuns(Rng& rng, double probability, int frames) const {
    if (rng.Uniform() >= probability) return {};
    const int masked = static_cast<int>(rng.Uniform() * options_.max_frame_share * (frames + 1));
    const int count = (masked + options_.max_frames - 1) / options_.max_frames;
    std::vector<int> places;
    for (int i = 0; i < count; ++i) {
      places.push_back(static_cast<int>(rng.Below(static_cast<uint64_t>(frames - masked) + 1)));
    }
    std::ranges::sort(places);
    std::vector<Span> runs;
    for (int i = 0; i < count; ++i) {
      const int before = masked * i / count, after = masked * (i + 1) / count;
      runs.push_back({places[static_cast<size_t>(i)] + before, places[static_cast<size_t>(i)] + after});
    }
    return runs;
  }

  void ApplyPerChunk(const ExecContext& ctx, ConstMatrixView x, MatrixView y) const {
    if (x.data() != y.data()) Scale(1.0f, x, y);
    const double factor = ctx.training ? ctx.dropout_factor : 0.0;
    if (factor == 0) return;
    const std::array<uint32_t, 2> key = MaskKey(ctx, layer_);
    const int64_t streams = ctx.streams();
    const auto frames = static_cast<int>(x.rows() / streams);
    const auto mask = [&](int64_t frame, int64_t stream, const Span& columns) {
      float* row = y.Row(frame * streams + stream).data();
      std::fill(row + columns.first, row + columns.last, 0.0f);
    };
    ParallelItems(streams, x.size(), [&](int64_t s) {
      Rng rng(MixSeed(key[0], key[1]), static_cast<uint64_t>(s));
      std::array<uint32_t, 4> words = {};
      for (uint32_t& word : words) word = rng.NextU32();
      const Span band = Draw(words, factor * options_.band_probability, options_.max_bands, options_.feature_dim);
      for (int t = 0; t < frames; ++t) mask(t, s, band);
      for (const Span& run : DrawRuns(rng, factor * options_.frame_probability, frames)) {
        for (int t = run.first; t < run.last; ++t) mask(t, s, {0, options_.feature_dim});
      }
    });
  }

  void Apply(const ExecContext& ctx, ConstMatrixView x, MatrixView y) const {
    const int width = options_.feature_dim;
    const int frames = in_dim() / width;
    const double factor = ctx.training ? ctx.dropout_factor : 0.0;
    const std::array<uint32_t, 2> key = MaskKey(ctx, layer_);
    ParallelItems(x.rows(), x.size(), [&](int64_t r) {
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
    });
  }

  SpecMaskOptions options_;
  uint64_t layer_;
};

REGISTER_COMPONENT(LayerRegistry, "spec-mask", [](const LayerArgs& args) {
  return std::make_unique<SpecMask>(args, ReadLayerOptions<SpecMaskOptions>(args));
});

}  // namespace
}  // namespace antiphon::nn
