// An approximation of a matrix's inverse from products with it: limited-memory BFGS as a preconditioner.
//
// From pairs (s, y = B·s) with sᵀy > 0: H·r by the two-loop recursion, with H₀ = (sᵀy / yᵀy)·I of the newest pair.
// Pairs come from the iterations of one conjugate-gradient run and serve the next one, on a matrix that has moved a
// little; evenly spaced ones are kept, as those next to each other say the same. Units: double. Memory: 2 · pairs
// vectors. Threads: one. Source: Morales, Nocedal, SIAM J. Optim. 2000; Sainath et al., ASRU 2013 ("implicit
// preconditioning").
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "math/safetensors.h"

namespace antiphon::optim {

class LbfgsPreconditioner {
 public:
  explicit LbfgsPreconditioner(int max_pairs) : max_pairs_(static_cast<size_t>(max_pairs)) {}

  /// One of a run's pairs; of so many that do not fit, every second is dropped (the only one, if there is room for
  /// one), and from then on every second taken.
  void Offer(std::span<const double> s, std::span<const double> y);
  /// The next run begins: what was offered becomes what Apply uses.
  void Advance();
  /// out = H·r; out = r without pairs.
  void Apply(std::span<const double> r, std::span<double> out) const;
  size_t num_pairs() const { return used_.size(); }
  void Reset();

  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const;
  void LoadState(const SafetensorsReader& reader, const std::string& prefix);

 private:
  struct Pair {
    std::vector<double> s, y;
    double sy = 0;
  };
  size_t max_pairs_;
  std::vector<Pair> used_;
  std::vector<Pair> offered_;
  int64_t cycle_ = 1;
  int64_t count_ = 0;
};

}  // namespace antiphon::optim
