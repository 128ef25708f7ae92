// Renormalisation: y = x · r·√D / ‖x‖ per frame, so that the root mean square of a frame is r. A frame of zeros stays
// zero.
//
// Source: Zhang et al., ICASSP 2014 (as for p-norm); Kaldi's NormalizeComponent.
#include <cmath>

#include "kernels/parallel.h"
#include "nn/layer.h"

namespace antiphon::nn {
namespace {

struct RenormOptions {
  double target_rms = 1.0;
  template <class V>
  void Visit(V& v) {
    v("target-rms", target_rms, Range{1e-6, 1e6}, "root mean square of every frame");
  }
};

class Renorm : public Layer {
 public:
  Renorm(const LayerArgs& args, const RenormOptions& options) : Layer(args.in_dim, args.in_dim), options_(options) {}
  Config ToConfig() const override { return OptionsToConfig(options_); }
  LayerProperties properties() const override { return {.in_place = true, .needs_output = true, .symmetric = true}; }

 protected:
  void DoForward(const ExecContext&, ConstMatrixView x, MatrixView y, Workspace& ws) const override {
    const MatrixView scale = ws.Float(kScale, x.rows(), 1);
    const double target = options_.target_rms * std::sqrt(static_cast<double>(x.cols()));
    ParallelItems(x.rows(), x.size(), [&](int64_t r) {
      const float norm = std::sqrt(Dot(x.Row(r).data(), x.Row(r).data(), x.cols()));
      const float s = norm == 0 ? 0.0f : static_cast<float>(target / static_cast<double>(norm));
      scale(r, 0) = s;
      const float* in = x.Row(r).data();
      float* out = y.Row(r).data();
      for (int64_t c = 0; c < x.cols(); ++c) out[c] = s * in[c];
    });
  }

  // With z = y/(r√D): dx = s · (dy − z·(z·dy)).
  void DoBackward(const ExecContext&, ConstMatrixView dy, Workspace& ws, MatrixView dx, GradientSink&) override {
    if (dx.data() == nullptr) return;
    const MatrixView scale = ws.Float(kScale);
    const double target_squared = options_.target_rms * options_.target_rms * static_cast<double>(dx.cols());
    ParallelItems(dx.rows(), dx.size(), [&](int64_t r) {
      const float* y = ws.y.Row(r).data();
      const float* g = dy.Row(r).data();
      float* out = dx.Row(r).data();
      const auto along = static_cast<float>(static_cast<double>(Dot(y, g, dx.cols())) / target_squared);
      const float s = scale(r, 0);
      for (int64_t c = 0; c < dx.cols(); ++c) out[c] = s * (g[c] - along * y[c]);
    });
  }

 private:
  enum Slot { kScale };

  // Sixteen running sums: a fixed order that the compiler can put into vectors.
  static float Dot(const float* a, const float* b, int64_t n) {
    float sums[16] = {};
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
      for (int j = 0; j < 16; ++j) sums[j] += a[i + j] * b[i + j];
    }
    for (int j = 0; i < n; ++i, ++j) sums[j] += a[i] * b[i];
    float total = 0;
    for (const float s : sums) total += s;
    return total;
  }

  RenormOptions options_;
};

REGISTER_COMPONENT(LayerRegistry, "renorm", [](const LayerArgs& args) {
  return std::make_unique<Renorm>(args, ReadLayerOptions<RenormOptions>(args));
});

}  // namespace
}  // namespace antiphon::nn
