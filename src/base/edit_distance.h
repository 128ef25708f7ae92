// Levenshtein distance with unit costs between sequences of anything comparable.
//
// Memory: one row. Threads: pure function. Source: V. Levenshtein 1966; Wagner and Fischer, JACM 1974.
#pragma once

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

namespace antiphon {

template <class T>
size_t EditDistance(std::span<const T> a, std::span<const T> b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitution = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substitution, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace antiphon
