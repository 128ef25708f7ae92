// The median, of whoever measures something several times. Threads: pure function.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace antiphon {

/// The upper one of an even number; `values` is not empty.
template <class T>
T Median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace antiphon
