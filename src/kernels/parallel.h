// Splits a kernel's rows or elements over the caller's threads, when there is enough to do.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/compute_threads.h"

namespace antiphon {

/// Elements below which waking another thread costs more than it brings.
constexpr int64_t kParallelElements = 1 << 15;

/// Calls body(first, last) for consecutive ranges that cover [0, count); boundaries are multiples of `multiple`. What
/// the body computes for an element must not depend on the ranges.
template <class Body>
void ParallelRanges(int64_t count, int64_t elements_per_item, int64_t multiple, Body body) {
  // More ranges than threads: who is held up by other work leaves the rest to others.
  constexpr int64_t kRangesPerThread = 3;
  const int64_t items = (count + multiple - 1) / multiple;
  const int64_t threads = ComputeThreads();
  const int64_t ranges =
      threads == 1 ? 1 : std::min({items, count * elements_per_item / kParallelElements, threads * kRangesPerThread});
  if (ranges <= 1) {
    if (count > 0) body(int64_t{0}, count);
    return;
  }
  ParallelPieces(ranges, [&](int64_t t, int /*thread*/) {
    const int64_t first = items * t / ranges * multiple;
    const int64_t last = std::min(count, items * (t + 1) / ranges * multiple);
    if (first < last) body(first, last);
  });
}

/// Calls body(i) for i in [0, count), which together have so many elements. What the body does must depend on i alone.
template <class Body>
void ParallelItems(int64_t count, int64_t elements, Body body) {
  ParallelRanges(count, count > 0 ? elements / count : 0, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) body(i);
  });
}

}  // namespace antiphon
