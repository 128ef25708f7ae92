// Maximum likelihood linear transform: the square matrix that makes diagonal covariances fit best (semi-tied
// covariances).
//
// Shapes: the transform is [dim, dim], applied to frames before the Gaussians: x' = M x, means' = M means. Units:
// `improvement` in nats per frame. Threads: one thread per accumulator; accumulators of disjoint data are added in a
// fixed order. Errors: InputError if there is too little data. Source: M. Gales, "Semi-tied covariance matrices for
// hidden Markov models", IEEE TSAP 1999.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "math/matrix.h"

namespace antiphon::hmm {

class MlltEstimator {
 public:
  /// Keeps one full covariance per Gaussian: 4·dim² bytes each.
  MlltEstimator(int64_t dim, int64_t num_gaussians);

  /// One frame's deviation from the mean of a Gaussian that has this posterior.
  void Accumulate(int64_t gaussian, std::span<const float> deviation, float posterior);
  void Add(const MlltEstimator& other);

  struct Result {
    Matrix transform;
    double improvement = 0;
  };
  /// inverse_variances [num_gaussians, dim] as they were while accumulating.
  Result Estimate(ConstMatrixView inverse_variances, int iterations = 50) const;
  template <class V>
  void VisitFields(V& v) {
    v(counts_);
    v(scatter_);
  }

 private:
  int64_t dim_;
  std::vector<double> counts_;
  Matrix scatter_;  // [num_gaussians, dim·(dim+1)/2], lower triangles
};

}  // namespace antiphon::hmm
