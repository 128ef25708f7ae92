// A shortcut around other layers: y = f(x) + scale·x, where f is the chain `layers` and the frame of x is the one that
// y stands for.
//
//   [[layer]]
//   type = "residual"
//   scale = 0.66
//   layers = [{type = "tdnn", dim = 512}, {type = "relu"}, {type = "batch-norm"}]
// Source: He et al., CVPR 2016; the scaled shortcut: Povey et al., Interspeech 2018.
#include "nn/layers/residual.h"

#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/parallel.h"
#include "nn/layer_traits.h"
#include "nn/layers/inner_chain.h"

namespace antiphon::nn {
namespace {

struct ResidualOptions {
  double scale = 1.0;
  template <class V>
  void Visit(V& v) {
    v("scale", scale, Range{-1e6, 1e6}, "factor of the input that is added to what the layers give");
  }
};

Network Inner(const LayerArgs& args) {
  Network inner = MakeChain(args, "the list that the shortcut of 'residual' leads around", args.seed);
  if (inner.out_dim() != args.in_dim) {
    Throw<UsageError>("{}: a shortcut adds {} inputs to as many outputs, found {} outputs", args.config.Where(),
                      args.in_dim, inner.out_dim());
  }
  return inner;
}

}  // namespace

Residual::Residual(const LayerArgs& args)
    : Layer(args.in_dim, args.in_dim),
      scale_(ReadOptions<ResidualOptions>(args.config, KeysBesideChain()).scale),
      inner_(Inner(args)),
      index_(args.index) {}

Constrained* Residual::constraint() { return IsConstrained(inner_) ? this : nullptr; }

Config Residual::ToConfig() const {
  Config config = OptionsToConfig(ResidualOptions{scale_});
  SetChain(inner_, config);
  return config;
}

void Residual::DoForward(const ExecContext& ctx, ConstMatrixView x, MatrixView y, Workspace& ws) const {
  const ConstMatrixView inner = inner_.Forward(InsideChain(ctx, index_, 0), x, ws.Child(0));
  ParallelItems(y.rows(), y.size(), [&](int64_t r) {
    const float* from = x.Row(InputRow(ctx, r)).data();
    const float* f = inner.Row(r).data();
    float* to = y.Row(r).data();
    for (int64_t c = 0; c < y.cols(); ++c) to[c] = f[c] + scale() * from[c];
  });
}

void Residual::DoBackward(const ExecContext& ctx, ConstMatrixView dy, Workspace& ws, MatrixView dx,
                          GradientSink& sink) {
  const bool wanted = dx.data() != nullptr;
  const ConstMatrixView through = inner_.Backward(InsideChain(ctx, index_, 0), dy, ws.Child(0), sink, wanted);
  if (!wanted) return;
  const TimeContext context = inner_.time_context();
  const int64_t streams = ctx.streams();
  ParallelItems(dx.rows(), 2 * dx.size(), [&](int64_t r) {
    const float* from = through.Row(r).data();
    float* to = dx.Row(r).data();
    const int64_t frame = r / streams - context.left;
    const int64_t row = frame / context.stride * streams + r % streams;
    if (frame < 0 || frame % context.stride != 0 || row >= dy.rows()) {
      std::copy_n(from, dx.cols(), to);
      return;
    }
    const float* g = dy.Row(row).data();
    for (int64_t c = 0; c < dx.cols(); ++c) to[c] = from[c] + scale() * g[c];
  });
}

void Residual::DoTangent(const ExecContext& ctx, ConstMatrixView dx, std::span<const float> direction, Workspace& ws,
                         MatrixView dy) {
  Scale(1.0f, inner_.Tangent(InsideChain(ctx, index_, 0), dx, direction, ws.Child(0)), dy);
  if (dx.data() == nullptr) return;
  for (int64_t r = 0; r < dy.rows(); ++r) {
    const float* from = dx.Row(InputRow(ctx, r)).data();
    float* to = dy.Row(r).data();
    for (int64_t c = 0; c < dy.cols(); ++c) to[c] += scale() * from[c];
  }
}

// The frame that an output stands for.
int64_t Residual::InputRow(const ExecContext& ctx, int64_t output_row) const {
  const TimeContext context = inner_.time_context();
  const int64_t streams = ctx.streams();
  return (output_row / streams * context.stride + context.left) * streams + output_row % streams;
}

namespace {

REGISTER_COMPONENT(LayerRegistry, "residual", [](const LayerArgs& args) { return std::make_unique<Residual>(args); });
REGISTER_COMPONENT(LayerTraitsRegistry, "residual", Traits({.shortcut = true}));

}  // namespace
}  // namespace antiphon::nn
