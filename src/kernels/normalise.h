// Statistics of columns over frames, and what batch normalisation does with them, in one or two sweeps over memory.
//
// Shapes: x, g, y [N, C]; means, scales and sums have C elements. `counts` says which rows count (N bytes, not 0: it
// does); null: all. Threads: the caller's compute threads; sums are over blocks of rows in a fixed order, so that their
// number changes no bit. NaN goes through. Errors: ShapeError naming both shapes.
#pragma once

#include <cstdint>

#include "device/kernel_table.h"
#include "math/matrix.h"

namespace antiphon {

/// The mean of each column over the rows that count, and the sum of squared deviations from it; both 0 without rows.
struct ColumnMomentsOp {
  static constexpr const char* kName = "column_moments";
  using Function = void (*)(ConstMatrixView x, const uint8_t* counts, double* mean, double* squares);
};
/// sums[0, c] = Σ g, sums[1, c] = Σ g·(x − mean[c]) over the rows that count.
struct CentredSumsOp {
  static constexpr const char* kName = "centred_sums";
  using Function = void (*)(ConstMatrixView g, ConstMatrixView x, const uint8_t* counts, const float* mean,
                            MatrixView sums);
};
/// y = scale[c]·(x − mean[c]) + offset[c], for all rows; y may be x. `offset` may be null (0).
struct NormaliseOp {
  static constexpr const char* kName = "normalise";
  using Function = void (*)(ConstMatrixView x, const float* mean, const float* scale, const float* offset,
                            MatrixView y);
};
/// dx = scale[c]·(g − a[c] − b[c]·(x − mean[c])) for rows that count, 0 for others; dx may be g.
struct NormaliseDerivativeOp {
  static constexpr const char* kName = "normalise_derivative";
  using Function = void (*)(ConstMatrixView g, ConstMatrixView x, const uint8_t* counts, const float* mean,
                            const float* scale, const float* a, const float* b, MatrixView dx);
};

}  // namespace antiphon
