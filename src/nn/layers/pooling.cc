// The largest value, or the mean, of neighbouring positions, channel by channel: what a convolution over frequency
// found, no matter exactly where.
//
// Rows as convolution.cc has them: position after position, `channels` values each. A last window that reaches beyond
// the end covers what there is.
// Source: Abdel-Hamid et al., IEEE TASLP 2014.
#include <algorithm>

#include "kernels/parallel.h"
#include "nn/layer.h"

namespace antiphon::nn {
namespace {

struct PoolingOptions {
  int channels = 0;
  int window = 3;
  int stride = 0;
  std::string function = "max";
  template <class V>
  void Visit(V& v) {
    v("channels", channels, Range{0, 1 << 20}, "values per position: the filters of the convolution below");
    v("window", window, Range{1, 1 << 16}, "positions that one output stands for");
    v("stride", stride, Range{0, 1 << 16}, "positions from one output to the next; 0: the window");
    v("function", function, OneOf{{"max", "average"}}, "of the values in a window");
  }
};

PoolingOptions CheckedPooling(const LayerArgs& args) {
  auto options = ReadLayerOptions<PoolingOptions>(args);
  if (options.stride == 0) options.stride = options.window;
  if (options.channels == 0 || args.in_dim % options.channels != 0) {
    Throw<UsageError>("{}: pooling needs `channels`, of which the {} inputs must be a multiple; found {}",
                      args.config.Where("channels"), args.in_dim, options.channels);
  }
  return options;
}

// Windows until all is covered; with a stride beyond the window, the last one still begins inside.
int OutputHeight(int height, const PoolingOptions& options) {
  const int until_covered = std::max(0, height - options.window + options.stride - 1) / options.stride;
  return std::min(until_covered, (height - 1) / options.stride) + 1;
}

class Pooling : public Layer, public HasTangent {
 public:
  Pooling(const LayerArgs& args, const PoolingOptions& options)
      : Layer(args.in_dim, OutputHeight(args.in_dim / options.channels, options) * options.channels),
        options_(options),
        height_(args.in_dim / options.channels) {}
  Config ToConfig() const override { return OptionsToConfig(options_); }
  LayerProperties properties() const override { return {.needs_output = options_.function == "max"}; }
  HasTangent* tangent() override { return this; }

 protected:
  void DoForward(const ExecContext&, ConstMatrixView x, MatrixView y, Workspace&) const override {
    const bool max = options_.function == "max";
    const int64_t channels = options_.channels;
    ParallelItems(x.rows(), x.size(), [&](int64_t r) {
      ForWindows([&](int64_t out, int64_t first, int64_t last) {
        float* to = y.Row(r).data() + out * channels;
        const float* from = x.Row(r).data() + first * channels;
        std::copy_n(from, channels, to);
        for (int64_t h = first + 1; h < last; ++h) {
          from += channels;
          for (int64_t c = 0; c < channels; ++c) to[c] = max ? std::max(to[c], from[c]) : to[c] + from[c];
        }
        if (max) return;
        for (int64_t c = 0; c < channels; ++c) to[c] /= static_cast<float>(last - first);
      });
    });
  }

  // The first of equal values gets all.
  void DoBackward(const ExecContext&, ConstMatrixView dy, Workspace& ws, MatrixView dx, GradientSink&) override {
    if (dx.data() == nullptr) return;
    ParallelItems(dx.rows(), dx.size(), [&](int64_t r) {
      std::fill_n(dx.Row(r).data(), dx.cols(), 0.0f);
      ForWindows([&](int64_t out, int64_t first, int64_t last) {
        for (int64_t c = 0; c < options_.channels; ++c) {
          const int64_t at = out * options_.channels + c;
          PassBack(dy(r, at), ws.x.Row(r).data(), ws.y(r, at), c, first, last, dx.Row(r).data());
        }
      });
    });
  }

  void DoTangent(const ExecContext&, ConstMatrixView dx, std::span<const float>, Workspace& ws,
                 MatrixView dy) override {
    ParallelItems(dy.rows(), dx.size(), [&](int64_t r) {
      ForWindows([&](int64_t out, int64_t first, int64_t last) {
        for (int64_t c = 0; c < options_.channels; ++c) {
          const int64_t at = out * options_.channels + c;
          dy(r, at) = PassOn(dx.Row(r).data(), ws.x.Row(r).data(), ws.y(r, at), c, first, last);
        }
      });
    });
  }

 private:
  // Calls body(output position, first input position, one behind the last).
  template <class Body>
  void ForWindows(Body body) const {
    const int64_t outputs = out_dim() / options_.channels;
    for (int64_t out = 0; out < outputs; ++out) {
      const int64_t first = out * options_.stride;
      body(out, first, std::min<int64_t>(first + options_.window, height_));
    }
  }

  void PassBack(float g, const float* x, float y, int64_t channel, int64_t first, int64_t last, float* dx) const {
    const int64_t channels = options_.channels;
    if (options_.function == "average") {
      g /= static_cast<float>(last - first);
      for (int64_t h = first; h < last; ++h) dx[h * channels + channel] += g;
      return;
    }
    for (int64_t h = first; h < last; ++h) {
      if (x[h * channels + channel] != y) continue;
      dx[h * channels + channel] += g;
      return;
    }
  }

  // The other way: what PassBack adds to one of the inputs, or to all, comes from there.
  float PassOn(const float* dx, const float* x, float y, int64_t channel, int64_t first, int64_t last) const {
    const int64_t channels = options_.channels;
    if (options_.function == "average") {
      float sum = 0;
      for (int64_t h = first; h < last; ++h) sum += dx[h * channels + channel];
      return sum / static_cast<float>(last - first);
    }
    for (int64_t h = first; h < last; ++h) {
      if (x[h * channels + channel] == y) return dx[h * channels + channel];
    }
    return 0;
  }

  PoolingOptions options_;
  int height_;
};

REGISTER_COMPONENT(LayerRegistry, "pooling",
                   [](const LayerArgs& args) { return std::make_unique<Pooling>(args, CheckedPooling(args)); });

}  // namespace
}  // namespace antiphon::nn
