// A layer as somebody would add one: this file alone. It is registered in the conformance suite's program, which then
// tries it like every other, and toy_layer_test.cc holds that a network with it learns, is kept and scores.
//
// y = a∘x with one factor per unit, 1 in the beginning.
#include <algorithm>

#include "conformance/layer_samples.h"
#include "nn/layer.h"
#include "nn/layer_traits.h"

namespace antiphon::nn {
namespace {

struct ToyOptions {
  template <class V>
  void Visit(V&) {}
};

class Toy : public Layer, public HasTangent {
 public:
  explicit Toy(const LayerArgs& args) : Layer(args.in_dim, args.in_dim), factors_("factors", 1, args.in_dim) {
    ReadLayerOptions<ToyOptions>(args);
    std::fill_n(factors_.value.data(), args.in_dim, 1.0f);
  }
  Config ToConfig() const override { return Config(); }
  std::span<Parameter* const> parameters() override { return all_; }
  HasTangent* tangent() override { return this; }

 protected:
  void DoForward(const ExecContext&, ConstMatrixView x, MatrixView y, Workspace&) const override {
    for (int64_t n = 0; n < x.rows(); ++n) {
      for (int64_t c = 0; c < x.cols(); ++c) y(n, c) = factors_.value(0, c) * x(n, c);
    }
  }

  void DoBackward(const ExecContext&, ConstMatrixView dy, Workspace& ws, MatrixView dx, GradientSink& sink) override {
    const MatrixView gradient = ws.Float(0, 1, dy.cols());
    std::fill_n(gradient.data(), dy.cols(), 0.0f);
    for (int64_t n = 0; n < dy.rows(); ++n) {
      for (int64_t c = 0; c < dy.cols(); ++c) {
        gradient(0, c) += dy(n, c) * ws.x(n, c);
        if (dx.data() != nullptr) dx(n, c) = factors_.value(0, c) * dy(n, c);
      }
    }
    sink.TakeDense(factors_, gradient);
  }

  void DoTangent(const ExecContext&, ConstMatrixView dx, std::span<const float> direction, Workspace& ws,
                 MatrixView dy) override {
    for (int64_t n = 0; n < dy.rows(); ++n) {
      for (int64_t c = 0; c < dy.cols(); ++c) {
        const float through = dx.data() != nullptr ? factors_.value(0, c) * dx(n, c) : 0.0f;
        dy(n, c) = through + ws.x(n, c) * Along(direction, factors_)(0, c);
      }
    }
  }

 private:
  Parameter factors_;
  std::vector<Parameter*> all_ = {&factors_};
};

REGISTER_COMPONENT(LayerRegistry, "toy", [](const LayerArgs& args) { return std::make_unique<Toy>(args); });
REGISTER_COMPONENT(LayerTraitsRegistry, "toy", Traits({.nonlinearity = true}));
[[maybe_unused]] const bool kSampled = AddSample("toy", {""});

}  // namespace
}  // namespace antiphon::nn
