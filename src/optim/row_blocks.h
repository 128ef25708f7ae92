// Walks a weight matrix in blocks of rows that fit the cache, so that the passes of an update over a block find it
// there.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/elementwise.h"
#include "math/gemm.h"
#include "nn/parameter.h"

namespace antiphon::optim {

/// Bytes of fp32 weights per block: large enough for products at full speed, small enough for the shared cache.
inline int64_t RowBlockBytes() { return int64_t{CopiesTransposedFactors() ? 24 : 8} << 20; }

/// Calls body(first_row, rows) for each block; body changes the rows. Afterwards the block is brought within the
/// parameter's limits, and its bf16 copy, if there is a valid one, is refreshed.
template <class Body>
void ForRowBlocks(nn::Parameter& parameter, Body body) {
  const MatrixView value = parameter.value;
  const Bf16View half = parameter.BeginUpdate();
  const int64_t row_bytes = std::max<int64_t>(value.cols(), 1) * static_cast<int64_t>(sizeof(float));
  const int64_t step = std::max<int64_t>(64, RowBlockBytes() / row_bytes / 64 * 64);
  const int64_t blocks = std::max<int64_t>(1, (value.rows() + step - 1) / step);
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t first = value.rows() * b / blocks;
    const int64_t count = value.rows() * (b + 1) / blocks - first;
    body(first, value.Rows(first, count));
    parameter.Constrain(first, value.Rows(first, count));
    if (!half.empty()) ConvertToBf16(1.0f, value.Rows(first, count), half.Rows(first, count));
  }
}

}  // namespace antiphon::optim
