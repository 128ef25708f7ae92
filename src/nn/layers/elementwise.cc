// Elementwise nonlinearities: relu max(x, 0), sigmoid 1/(1 + e^−x), tanh. Their derivatives need only their outputs, so
// that the layer below may compute them at the end of its own product.
#include "kernels/elementwise.h"

#include "nn/layer.h"
#include "nn/layer_traits.h"

namespace antiphon::nn {
namespace {

struct NoOptions {
  template <class V>
  void Visit(V&) {}
};

class Elementwise : public Layer {
 public:
  Elementwise(const LayerArgs& args, Activation f) : Layer(args.in_dim, args.in_dim), f_(f) {
    ReadLayerOptions<NoOptions>(args);
  }
  Config ToConfig() const override { return Config(); }
  LayerProperties properties() const override {
    return {.in_place = true, .needs_output = true, .symmetric = true, .activation = f_};
  }

 protected:
  void DoForward(const ExecContext&, ConstMatrixView x, MatrixView y, Workspace&) const override {
    ActivationForward(f_, x, y);
  }
  void DoBackward(const ExecContext&, ConstMatrixView dy, Workspace& ws, MatrixView dx, GradientSink&) override {
    if (dx.data() != nullptr) ActivationBackward(f_, ws.y, dy, dx);
  }

 private:
  Activation f_;
};

REGISTER_COMPONENT(LayerRegistry, "relu",
                   [](const LayerArgs& args) { return std::make_unique<Elementwise>(args, Activation::kRelu); });
REGISTER_COMPONENT(LayerRegistry, "sigmoid",
                   [](const LayerArgs& args) { return std::make_unique<Elementwise>(args, Activation::kSigmoid); });
REGISTER_COMPONENT(LayerRegistry, "tanh",
                   [](const LayerArgs& args) { return std::make_unique<Elementwise>(args, Activation::kTanh); });
REGISTER_COMPONENT(LayerTraitsRegistry, "relu",
                   Traits({.nonlinearity = true, .units_apart = true, .scale_passes = true}));
REGISTER_COMPONENT(LayerTraitsRegistry, "sigmoid", Traits({.nonlinearity = true, .units_apart = true}));
REGISTER_COMPONENT(LayerTraitsRegistry, "tanh", Traits({.nonlinearity = true, .units_apart = true}));

}  // namespace
}  // namespace antiphon::nn
