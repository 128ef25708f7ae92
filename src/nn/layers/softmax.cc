// softmax and log-softmax over a frame's values, for use inside a network. A network for senones ends with logits
// instead: the loss and the scorer apply the log-softmax themselves.
#include "kernels/softmax.h"

#include <cmath>

#include "kernels/parallel.h"
#include "nn/layer.h"

namespace antiphon::nn {
namespace {

struct SoftmaxOptions {
  template <class V>
  void Visit(V&) {}
};

class SoftmaxLayer : public Layer, public HasTangent {
 public:
  SoftmaxLayer(const LayerArgs& args, bool log) : Layer(args.in_dim, args.in_dim), log_(log) {
    ReadLayerOptions<SoftmaxOptions>(args);
  }
  Config ToConfig() const override { return Config(); }
  LayerProperties properties() const override { return {.in_place = true, .needs_output = true, .symmetric = !log_}; }
  HasTangent* tangent() override { return log_ ? this : nullptr; }

 protected:
  void DoForward(const ExecContext&, ConstMatrixView x, MatrixView y, Workspace&) const override {
    Softmax(log_, x, y);
  }

  // softmax: dx = y∘(dy − Σ dy∘y); log-softmax: dx = dy − e^y·Σ dy.
  void DoBackward(const ExecContext&, ConstMatrixView dy, Workspace& ws, MatrixView dx, GradientSink&) override {
    if (dx.data() == nullptr) return;
    ParallelItems(dx.rows(), dx.size(), [&](int64_t r) {
      double sum = 0;
      for (int64_t c = 0; c < dx.cols(); ++c) {
        sum += static_cast<double>(dy(r, c)) * (log_ ? 1.0 : static_cast<double>(ws.y(r, c)));
      }
      const auto s = static_cast<float>(sum);
      for (int64_t c = 0; c < dx.cols(); ++c) {
        dx(r, c) = log_ ? dy(r, c) - std::exp(ws.y(r, c)) * s : ws.y(r, c) * (dy(r, c) - s);
      }
    });
  }

  // Of log-softmax: dy = dx − Σ e^y∘dx.
  void DoTangent(const ExecContext&, ConstMatrixView dx, std::span<const float>, Workspace& ws,
                 MatrixView dy) override {
    ParallelItems(dy.rows(), dy.size(), [&](int64_t r) {
      double mean = 0;
      for (int64_t c = 0; c < dy.cols(); ++c) {
        mean += std::exp(static_cast<double>(ws.y(r, c))) * static_cast<double>(dx(r, c));
      }
      for (int64_t c = 0; c < dy.cols(); ++c) dy(r, c) = static_cast<float>(static_cast<double>(dx(r, c)) - mean);
    });
  }

 private:
  bool log_;
};

REGISTER_COMPONENT(LayerRegistry, "softmax",
                   [](const LayerArgs& args) { return std::make_unique<SoftmaxLayer>(args, false); });
REGISTER_COMPONENT(LayerRegistry, "log-softmax",
                   [](const LayerArgs& args) { return std::make_unique<SoftmaxLayer>(args, true); });

}  // namespace
}  // namespace antiphon::nn
