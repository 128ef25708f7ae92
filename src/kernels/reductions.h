// Sums over rows, columns and whole matrices, in a fixed order whatever the number of threads.
//
// Threads: the caller's compute threads. NaN goes through.
// Errors: ShapeError naming both shapes.
#pragma once

#include "device/kernel_table.h"
#include "math/matrix.h"

namespace antiphon {

/// sums[0, c] = scale · Σ_r weights[r] · x[r, c] + accumulate · sums[0, c]; weights may be null (all 1). sums is [1,
/// cols].
struct ColumnSumsOp {
  static constexpr const char* kName = "column_sums";
  using Function = void (*)(float scale, ConstMatrixView x, const float* weights, float accumulate, MatrixView sums);
};
/// Σ x², in double across blocks.
struct SumSquaresOp {
  static constexpr const char* kName = "sum_squares";
  using Function = double (*)(ConstMatrixView x);
};

/// sums[r] = Σ_c x[r, c]², in double across blocks: what a row gives does not depend on the others.
struct RowSquaresOp {
  static constexpr const char* kName = "row_squares";
  using Function = void (*)(ConstMatrixView x, double* sums);
};

inline void ColumnSums(float scale, ConstMatrixView x, const float* weights, float accumulate, MatrixView sums) {
  CpuKernel<ColumnSumsOp>()(scale, x, weights, accumulate, sums);
}
inline double SumSquares(ConstMatrixView x) { return CpuKernel<SumSquaresOp>()(x); }
inline void RowSquares(ConstMatrixView x, double* sums) { CpuKernel<RowSquaresOp>()(x, sums); }

}  // namespace antiphon
