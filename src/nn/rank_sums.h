// Sums over the ranks that compute one minibatch together, each its frames: what batch normalisation needs to see all
// of it (synchronised batch normalisation).
//
// Threads: the caller's; all ranks call Sum in the same order, with equally many values, those without frames included.
// Determinism: all ranks get the same bits. Errors: those of whatever carries the sums.
#pragma once

#include <span>

namespace antiphon::nn {

class RankSums {
 public:
  virtual ~RankSums() = default;
  /// Each value becomes its sum over the ranks.
  virtual void Sum(std::span<double> values) = 0;
};

}  // namespace antiphon::nn
