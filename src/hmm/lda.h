// Linear discriminant analysis: the projection that best separates classes whose within-class covariance is shared.
//
// Shapes: frames [N, dim] with one class (usually pdf-id) per frame; the transform is [out_dim, dim + 1], its last
// column an offset, rows by falling class separation. In the projected space the within-class covariance is the
// identity. Threads: one thread per accumulator; accumulators of disjoint data are added in a fixed order. Errors:
// InputError if there are fewer frames than dimensions, or the within-class covariance is singular. Source: R.
// Haeb-Umbach, H. Ney, "Linear discriminant analysis for improved large vocabulary continuous speech recognition",
// ICASSP 1992.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "math/matrix.h"

namespace antiphon::hmm {

class LdaEstimator {
 public:
  LdaEstimator(int64_t dim, int num_classes);

  /// Adds frames [N, dim]; classes[n] in [0, num_classes), negative ones are skipped.
  void Accumulate(ConstMatrixView frames, std::span<const int32_t> classes);
  void Add(const LdaEstimator& other);

  struct Result {
    Matrix transform;                // [out_dim, dim + 1]
    std::vector<double> separation;  // between-class variance of each row, within-class variance being 1
  };
  /// `center` moves the global mean to 0 by the offset column; else the offset is 0. `within_class_share` < 1 flattens
  /// the dimensions' scale: row k is multiplied by sqrt((share + s_k) / (1 + s_k)); 1 leaves it alone.
  Result Estimate(int64_t out_dim, bool center, double within_class_share = 1.0) const;

  double num_frames() const;
  template <class V>
  void VisitFields(V& v) {
    v(counts_);
    v(sums_);
    v(squares_);
  }

 private:
  int64_t dim_;
  std::vector<double> counts_;  // per class
  DoubleMatrix sums_;           // [class, dim]
  DoubleMatrix squares_;        // Σ x xᵀ
  Matrix block_;                // Σ x xᵀ of one call, in float
};

}  // namespace antiphon::hmm
