// y = x on the way up, dx = −λ·dy on the way down: the layers below learn to hide what those above look for.
//
// λ = most·(2/(1 + e^(−γ·p)) − 1) grows with the share p of the training run, so that a classifier above has learned
// something before it is fought; γ = 0: always `most`. A negative `most` makes it an ordinary layer below a side task.
// Source: Ganin, Lempitsky, Unsupervised domain adaptation by backpropagation, ICML 2015; algorithms reference 1.25.
#include <cmath>

#include "kernels/elementwise.h"
#include "nn/layer.h"

namespace antiphon::nn {
namespace {

struct GradientReversalOptions {
  double most = 1.0;
  double gamma = 10.0;
  template <class V>
  void Visit(V& v) {
    v("most", most, Range{-1e6, 1e6}, "λ at the end of the run");
    v("gamma", gamma, Range{0, 1e6},
      "how fast λ rises from 0 with the share of the run; 0: it is `most` from the start");
  }
};

class GradientReversal : public Layer {
 public:
  GradientReversal(const LayerArgs& args, const GradientReversalOptions& options)
      : Layer(args.in_dim, args.in_dim), options_(options) {}
  Config ToConfig() const override { return OptionsToConfig(options_); }
  LayerProperties properties() const override { return {.in_place = true}; }

 protected:
  void DoForward(const ExecContext&, ConstMatrixView x, MatrixView y, Workspace&) const override { Scale(1, x, y); }
  void DoBackward(const ExecContext& ctx, ConstMatrixView dy, Workspace&, MatrixView dx, GradientSink&) override {
    if (dx.data() != nullptr) Scale(static_cast<float>(-Lambda(ctx.progress)), dy, dx);
  }

 private:
  double Lambda(double progress) const {
    return options_.gamma == 0 ? options_.most : options_.most * (2 / (1 + std::exp(-options_.gamma * progress)) - 1);
  }

  GradientReversalOptions options_;
};

REGISTER_COMPONENT(LayerRegistry, "gradient-reversal", [](const LayerArgs& args) {
  return std::make_unique<GradientReversal>(args, ReadLayerOptions<GradientReversalOptions>(args));
});

}  // namespace
}  // namespace antiphon::nn
