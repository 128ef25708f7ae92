// Splits a kernel's rows or elements over the OpenMP team of the caller, when there is enough to do.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace antiphon {

/// Elements below which starting a team costs more than it brings.
constexpr int64_t kParallelElements = 1 << 15;

/// Calls body(first, last) for consecutive ranges that cover [0, count); boundaries are multiples of `multiple`. What
/// the body computes for an element must not depend on the ranges.
template <class Body>
void ParallelRanges(int64_t count, int64_t elements_per_item, int64_t multiple, Body body) {
  const int64_t max_team = omp_in_parallel() != 0 ? 1 : omp_get_max_threads();
  const int64_t pieces = (count + multiple - 1) / multiple;
  const int64_t team = std::clamp<int64_t>(std::min(pieces, count * elements_per_item / kParallelElements), 1,
                                           std::max<int64_t>(max_team, 1));
  if (team == 1) {
    if (count > 0) body(int64_t{0}, count);
    return;
  }
#pragma omp parallel for num_threads(static_cast <int>(team)) schedule(static)
  for (int64_t t = 0; t < team; ++t) {
    const int64_t first = pieces * t / team * multiple;
    const int64_t last = std::min(count, pieces * (t + 1) / team * multiple);
    if (first < last) body(first, last);
  }
}

}  // namespace antiphon
