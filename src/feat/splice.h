// Context: frames beside each other in one row, and differences over time. Edges repeat the first and last frame.
//
// Shapes: T × d in; T × d·(left+1+right), oldest frame first, or T × d·(order+1), statics first.
// Threads: free functions.
#pragma once

#include <vector>

#include "math/matrix.h"

namespace antiphon::feat {

/// Row t holds frames t−left … t+right.
Matrix Splice(ConstMatrixView frames, int left, int right);
/// One row of it into `out` (d·(left+1+right) values).
void SpliceRow(ConstMatrixView frames, int64_t t, int left, int right, float* out);

/// Appends differences: order k is the regression over ±window applied k times as one filter, whose reach beyond the
/// ends repeats the edge frame (not the same as differences of edge-clamped differences).
Matrix AddDeltas(ConstMatrixView frames, int order, int window);

/// One row of it into `out` (d·filters.size() values), with the filters of DeltaFilters.
void AddDeltasRow(ConstMatrixView frames, int64_t t, const std::vector<std::vector<float>>& filters, float* out);

/// Coefficients of order 0 … `order`; the k-th has 2·k·window + 1 taps.
std::vector<std::vector<float>> DeltaFilters(int order, int window);

}  // namespace antiphon::feat
