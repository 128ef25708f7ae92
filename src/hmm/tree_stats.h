// What a decision tree is grown from: Gaussian statistics of every phone in context.
//
// A window holds the phones left, centre and right (0 beyond the utterance's ends); a statistic belongs to one window
// and one pdf class of its central phone. Units: log-likelihoods in nats. Threads: one thread per TreeStats; parts over
// disjoint data are added in a fixed order. Source: S. Young, J. Odell, P. Woodland, "Tree-based state tying for high
// accuracy acoustic modelling", HLT 1994.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "hmm/hmm_model.h"
#include "math/matrix.h"

namespace antiphon::hmm {

/// Count, sum and sum of squares per dimension: enough for the best single Gaussian of the frames.
class GaussianStats {
 public:
  GaussianStats() = default;
  explicit GaussianStats(int64_t dim) : sums_(static_cast<size_t>(2 * dim), 0.0) {}

  void Accumulate(std::span<const float> frame);
  void Add(const GaussianStats& other);
  void Subtract(const GaussianStats& other);

  double count() const { return count_; }
  /// Log-likelihood of the frames under their own diagonal Gaussian, variances floored.
  double LogLikelihood() const;
  template <class V>
  void VisitFields(V& v) {
    v(count_);
    v(sums_);
  }

 private:
  double count_ = 0;
  std::vector<double> sums_;  // Σx, then Σx²
};

struct TreeContext {
  std::array<int32_t, 3> window{};
  int32_t pdf_class = 0;
  auto operator<=>(const TreeContext&) const = default;
};

using TreeStats = std::map<TreeContext, GaussianStats>;

void AddTreeStats(TreeStats& total, const TreeStats& part);

/// Adds frames [N, dim] with the transition-ids of `model`; only the topology's states and phones count, not its tree.
void AccumulateTreeStats(const HmmModel& model, std::span<const int32_t> alignment, ConstMatrixView frames,
                         TreeStats& stats);

}  // namespace antiphon::hmm
