// Which units of a divided layer its ranks send each other, when a unit above sees only some of each other rank's.
//
// All units of a rank see the same units of another one, drawn once, so that nothing else has to be sent: with k links,
// 4·N·k bytes per minibatch of N rows, pair of ranks and direction.
// Threads: read only. Errors: none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "math/matrix.h"
#include "nn/network.h"

namespace antiphon::parallel {

class SparseLinks {
 public:
  /// Of `units` units, divided evenly over `ranks` ranks (by position); `seed` is the same on all of them.
  SparseLinks(int units, int ranks, int links, uint64_t seed);

  /// Units of rank `from` that those of rank `to` see, counted over the whole layer, ascending; of the rank itself all.
  const std::vector<int>& Seen(int from, int to) const {
    return seen_[static_cast<size_t>(from)][static_cast<size_t>(to)];
  }
  /// 1 for the inputs that the units of rank `to` see, 0 for the others; `copies` frames of the units side by side.
  std::vector<uint8_t> InputsOf(int to, int copies) const;

 private:
  int units_;
  std::vector<std::vector<std::vector<int>>> seen_;
};

/// Overwrites `values` with columns `columns` − `first` of `from`, row by row.
void PickColumns(ConstMatrixView from, std::span<const int> columns, int first, std::vector<float>& values);
/// Adds what PickColumns picked to the same columns of `to`.
void AddToColumns(std::span<const float> values, std::span<const int> columns, int first, MatrixView to);

}  // namespace antiphon::parallel
