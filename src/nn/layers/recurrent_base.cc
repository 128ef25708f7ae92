#include "nn/layers/recurrent_base.h"

#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/parallel.h"

namespace antiphon::nn {

MatrixView RecurrentBase::BeginStates(const ExecContext& ctx, Workspace& ws, size_t slot, int64_t rows,
                                      int64_t dim) const {
  const int64_t streams = ctx.streams();
  const MatrixView states = ws.Float(slot, rows + streams, dim);
  const MatrixView carried = ws.State(slot, streams, dim);
  for (int64_t s = 0; s < streams; ++s) {
    const bool begins = ctx.sequences == nullptr || ctx.sequences->Begins(static_cast<int>(s));
    if (begins) {
      std::fill_n(states.Row(s).data(), dim, 0.0f);
    } else {
      std::copy_n(carried.Row(s).data(), dim, states.Row(s).data());
    }
  }
  return states;
}

void RecurrentBase::KeepStates(const ExecContext& ctx, Workspace& ws, size_t slot, ConstMatrixView states) const {
  const int64_t streams = ctx.streams();
  const int64_t frames = states.rows() / streams - 1;
  if (frames == 0) return;
  const int64_t kept = std::max<int64_t>(frames - context_above().span(), 0);
  const ConstMatrixView from = states.Rows(kept * streams, streams);
  std::copy_n(from.data(), from.size(), ws.State(slot, streams, states.cols()).data());
}

void MultiplyByWeight(const ExecContext& ctx, ConstMatrixView x, Bf16View x16, Transpose trans, const Parameter& weight,
                      MatrixView y, const GemmEpilogue& epilogue) {
  if (ctx.precision == Precision::kFp32) return Gemm(Transpose::kNo, x, trans, weight.value, y, epilogue);
  ConvertToBf16(1.0f, x, x16);
  Gemm(Transpose::kNo, ConstBf16View(x16), trans, weight.Bf16Value(), y, epilogue);
}

float ClipLimit(const ExecContext& ctx, double clip, int64_t rows) {
  const double divisor = ctx.loss_weight > 0 ? ctx.loss_weight : static_cast<double>(rows);
  return ctx.clip_in_time && rows > 0 ? static_cast<float>(clip / divisor) : 0.0f;
}

void ClampAndAdd(float limit, ConstMatrixView x, MatrixView y) {
  if (limit == 0) return AddScaled(1.0f, x, y);
  ParallelRanges(y.rows(), y.cols(), 1, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const float* from = x.Row(r).data();
      for (float& v : y.Row(r)) v = std::clamp(v, -limit, limit) + *from++;
    }
  });
}

}  // namespace antiphon::nn
