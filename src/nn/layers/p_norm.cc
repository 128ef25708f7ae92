// p-norm: y_j = (Σ |x_i|^p)^{1/p} over consecutive groups of inputs. The derivative where a group is all zero is 0.
//
// Source: Zhang, Trmal, Povey, Khudanpur, "Improving deep neural network acoustic models using generalized maxout
// networks", ICASSP 2014.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/parallel.h"
#include "nn/layer.h"
#include "nn/layer_traits.h"
#include "nn/layers/largest_dim.h"

namespace antiphon::nn {
namespace {

struct PNormOptions {
  int dim = 0;
  double p = 2.0;
  template <class V>
  void Visit(V& v) {
    v("dim", dim, Range{1, kLargestDim}, "number of outputs; must divide the number of inputs");
    v("p", p, Range{1, 100}, "order of the norm");
  }
};

class PNorm : public Layer, public HasTangent {
 public:
  PNorm(const LayerArgs& args, const PNormOptions& options)
      : Layer(args.in_dim, options.dim), options_(options), group_(options.dim > 0 ? args.in_dim / options.dim : 0) {
    if (options.dim <= 0 || args.in_dim % options.dim != 0) {
      Throw<UsageError>("{}: 'p-norm' needs a `dim` that divides its {} inputs, found {}", args.config.Where("dim"),
                        args.in_dim, options.dim);
    }
  }
  Config ToConfig() const override { return OptionsToConfig(options_); }
  LayerProperties properties() const override { return {.needs_output = true}; }
  HasTangent* tangent() override { return this; }

 protected:
  void DoForward(const ExecContext&, ConstMatrixView x, MatrixView y, Workspace&) const override {
    ParallelItems(x.rows(), x.size(), [&](int64_t r) {
      const float* in = x.Row(r).data();
      for (float& out : y.Row(r)) {
        out = Norm(in);
        in += group_;
      }
    });
  }

  void DoBackward(const ExecContext&, ConstMatrixView dy, Workspace& ws, MatrixView dx, GradientSink&) override {
    if (dx.data() == nullptr) return;
    ParallelItems(dx.rows(), dx.size(), [&](int64_t r) {
      for (int64_t j = 0; j < dy.cols(); ++j) {
        const float norm = ws.y(r, j);
        for (int64_t i = j * group_; i < (j + 1) * group_; ++i) dx(r, i) = dy(r, j) * Slope(ws.x(r, i), norm);
      }
    });
  }

  void DoTangent(const ExecContext&, ConstMatrixView dx, std::span<const float>, Workspace& ws,
                 MatrixView dy) override {
    ParallelItems(dy.rows(), dx.size(), [&](int64_t r) {
      for (int64_t j = 0; j < dy.cols(); ++j) {
        float sum = 0;
        for (int64_t i = j * group_; i < (j + 1) * group_; ++i) sum += dx(r, i) * Slope(ws.x(r, i), ws.y(r, j));
        dy(r, j) = sum;
      }
    });
  }

 private:
  // Scaled by the largest value, so that neither large nor small inputs leave the range of float.
  float Norm(const float* x) const {
    float max = 0;
    for (int i = 0; i < group_; ++i) max = std::isnan(x[i]) ? x[i] : std::max(max, std::abs(x[i]));
    if (max == 0 || !std::isfinite(max)) return max;
    float sum = 0;
    for (int i = 0; i < group_; ++i) sum += Power(std::abs(x[i]) / max, options_.p);
    return max * Power(sum, 1 / options_.p);
  }
  // d norm / d x.
  float Slope(float x, float norm) const {
    if (norm == 0) return 0;
    const float magnitude = Power(std::abs(x) / norm, options_.p - 1);
    return x < 0 ? -magnitude : magnitude;
  }
  static float Power(float base, double exponent) {
    if (exponent == 1) return base;
    if (exponent == 2) return base * base;
    if (exponent == 0.5) return std::sqrt(base);
    return std::pow(base, static_cast<float>(exponent));
  }

  PNormOptions options_;
  int group_;
};

REGISTER_COMPONENT(LayerRegistry, "p-norm", [](const LayerArgs& args) {
  return std::make_unique<PNorm>(args, ReadLayerOptions<PNormOptions>(args));
});
REGISTER_COMPONENT(LayerTraitsRegistry, "p-norm", Traits({.nonlinearity = true}));

}  // namespace
}  // namespace antiphon::nn
