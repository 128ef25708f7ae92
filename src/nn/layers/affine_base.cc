#include "nn/layers/affine_base.h"

#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/parallel.h"

namespace antiphon::nn {

int CheckedDim(const LayerArgs& args, int dim) {
  if (dim == 0) dim = args.default_out_dim;
  if (dim <= 0) {
    Throw<UsageError>("{}: '{}' needs `dim`, the number of its outputs (only the last layer takes it from the task)",
                      args.config.Where(), args.config.RequiredText("type"));
  }
  return dim;
}

void DrawWeights(double scale, uint64_t seed, MatrixView weight, int64_t first_row) {
  const double deviation = scale / std::sqrt(static_cast<double>(std::max<int64_t>(weight.cols(), 1)));
  ParallelItems(weight.rows(), weight.size(), [&](int64_t r) {
    Rng rng(seed, static_cast<uint64_t>(first_row + r));
    for (float& w : weight.Row(r)) w = static_cast<float>(deviation * rng.Normal());
  });
}

AffineBase::AffineBase(const LayerArgs& args, int dim)
    : Layer(args.in_dim, CheckedDim(args, dim)), weight_("weight", out_dim(), in_dim()), bias_("bias", 1, out_dim()) {
  bias_.decay_factor = 0;
  bias_.weight = &weight_;
  if (args.random_values) DrawWeights(1.0, args.seed, weight_.value);
}

void AffineBase::DoForward(const ExecContext& ctx, ConstMatrixView x, MatrixView y, Workspace& ws) const {
  const GemmEpilogue epilogue{.bias = bias_.value.data(), .activation = activation_};
  ConstMatrixView weight = weight_.value;
  ConstMatrixView input = x;
  if (changes_weight()) {
    const MatrixView own = ws.Float(kWeight, out_dim(), in_dim());
    MakeWeight(own);
    weight = own;
  }
  if (changes_input()) {
    const MatrixView own = ws.Float(kInput, x.rows(), x.cols());
    MakeInput(x, own);
    input = own;
  }
  if (ctx.precision == Precision::kFp32) {
    Gemm(Transpose::kNo, input, Transpose::kYes, weight, y, epilogue);
    return;
  }
  const Bf16View x16 = ws.Half(kHalfInput, x.rows(), x.cols());
  ConvertToBf16(1.0f, input, x16);
  if (changes_weight()) ConvertToBf16(1.0f, weight, ws.Half(kHalfWeight, out_dim(), in_dim()));
  Gemm(Transpose::kNo, x16, Transpose::kYes, HalfWeight(ws), y, epilogue);
}

ConstBf16View AffineBase::HalfWeight(Workspace& ws) const {
  return changes_weight() ? ConstBf16View(ws.Half(kHalfWeight)) : weight_.Bf16Value();
}

void AffineBase::DoBackward(const ExecContext& ctx, ConstMatrixView dy, Workspace& ws, MatrixView dx,
                            GradientSink& sink) {
  GradientFactors factors{.x = ws.x, .g = dy, .x16 = {}, .g16 = {}, .bias_input = {}};
  if (changes_input()) factors.x = ws.Float(kInput);
  if (ctx.precision == Precision::kBf16) {
    const Bf16View g16 = ws.HalfDerivative(kDerivative, dy.rows(), dy.cols());
    ConvertToBf16(1.0f, dy, g16);
    factors.g16 = g16;
    factors.x16 = ws.Half(kHalfInput);
    if (dx.data() != nullptr) Gemm(Transpose::kNo, factors.g16, Transpose::kNo, HalfWeight(ws), dx);
  } else if (dx.data() != nullptr) {
    Gemm(Transpose::kNo, dy, Transpose::kNo, changes_weight() ? ConstMatrixView(ws.Float(kWeight)) : weight_.value, dx);
  }
  if (changes_input() && dx.data() != nullptr) PassInput(ws.x, dx);
  if (weight_.learning_rate_factor != 0) sink.TakeFactors(weight_, &bias_, factors);
}

}  // namespace antiphon::nn
