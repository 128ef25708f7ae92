// Learning hidden unit contributions: y = a∘x with a = 2σ(r) per unit, what one speaker needs of each hidden unit.
//
// Starts as the identity (r = 0, a = 1 exactly); a stays between 0 and 2.
// Source: Swietojanski, Renals, Learning hidden unit contributions for unsupervised speaker adaptation, SLT 2014.
#include <cmath>

#include "kernels/parallel.h"
#include "nn/layer.h"
#include "nn/layer_traits.h"

namespace antiphon::nn {
namespace {

struct LhucOptions {
  template <class V>
  void Visit(V&) {}
};

class Lhuc : public Layer, public HasTangent {
 public:
  explicit Lhuc(const LayerArgs& args) : Layer(args.in_dim, args.in_dim), r_("r", 1, args.in_dim) {
    ReadLayerOptions<LhucOptions>(args);
    r_.decay_factor = 0;
  }
  Config ToConfig() const override { return Config(); }
  std::span<Parameter* const> parameters() override { return all_; }
  LayerProperties properties() const override { return {.in_place = true}; }
  HasTangent* tangent() override { return this; }

 protected:
  void DoForward(const ExecContext&, ConstMatrixView x, MatrixView y, Workspace& ws) const override {
    const float* a = Amplitudes(ws);
    ParallelItems(x.rows(), x.size(), [&](int64_t n) {
      const float* in = x.Row(n).data();
      float* out = y.Row(n).data();
      for (int64_t c = 0; c < x.cols(); ++c) out[c] = a[c] * in[c];
    });
  }

  // dr = Σ dy·x·a' with a' = a·(1 − a/2).
  void DoBackward(const ExecContext&, ConstMatrixView dy, Workspace& ws, MatrixView dx, GradientSink& sink) override {
    const float* a = Amplitudes(ws);
    const MatrixView gradient = ws.Float(kGradient, 1, dy.cols());
    float* dr = gradient.data();
    std::fill_n(dr, dy.cols(), 0.0f);
    for (int64_t n = 0; n < dy.rows(); ++n) {
      const float* g = dy.Row(n).data();
      const float* x = ws.x.Row(n).data();
      for (int64_t c = 0; c < dy.cols(); ++c) dr[c] += g[c] * x[c];
      if (dx.data() == nullptr) continue;
      float* out = dx.Row(n).data();
      for (int64_t c = 0; c < dy.cols(); ++c) out[c] = a[c] * g[c];
    }
    for (int64_t c = 0; c < dy.cols(); ++c) dr[c] *= a[c] * (1 - 0.5f * a[c]);
    if (r_.learning_rate_factor != 0) sink.TakeDense(r_, gradient);
  }

  void DoTangent(const ExecContext&, ConstMatrixView dx, std::span<const float> direction, Workspace& ws,
                 MatrixView dy) override {
    const float* a = Amplitudes(ws);
    const float* dr = Along(direction, r_).data();
    for (int64_t n = 0; n < dy.rows(); ++n) {
      for (int64_t c = 0; c < dy.cols(); ++c) {
        const float through = dx.data() != nullptr ? a[c] * dx(n, c) : 0.0f;
        dy(n, c) = through + ws.x(n, c) * dr[c] * a[c] * (1 - 0.5f * a[c]);
      }
    }
  }

 private:
  enum Slot { kAmplitudes, kGradient };

  const float* Amplitudes(Workspace& ws) const {
    const MatrixView a = ws.Float(kAmplitudes, 1, r_.value.cols());
    for (int64_t c = 0; c < a.cols(); ++c) a(0, c) = 2 / (1 + std::exp(-r_.value(0, c)));
    return a.data();
  }

  Parameter r_;
  std::vector<Parameter*> all_ = {&r_};
};

REGISTER_COMPONENT(LayerRegistry, "lhuc", [](const LayerArgs& args) { return std::make_unique<Lhuc>(args); });
REGISTER_COMPONENT(LayerTraitsRegistry, "lhuc", Traits({.profile = LayerTraits::ProfilePart::kScale}));

}  // namespace
}  // namespace antiphon::nn
