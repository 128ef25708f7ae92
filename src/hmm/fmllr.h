// Feature-space maximum likelihood linear regression: one affine transform per speaker that fits their frames to the
// model.
//
// Shapes: the transform is W = [A b], [dim, dim + 1]; x' = A x + b. Units: `improvement` in nats per frame. Threads:
// one thread per accumulator; accumulators of disjoint data are added in a fixed order. Source: M. Gales, "Maximum
// likelihood linear transformations for HMM-based speech recognition", Computer Speech and Language 1998.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "math/matrix.h"

namespace antiphon::hmm {

/// What an estimator has seen, as plain numbers, to be kept. Empty: nothing yet.
struct FmllrStatistics {
  double posterior = 0;
  std::vector<double> linear;     // [dim · (dim + 1)]
  std::vector<double> quadratic;  // [dim · (dim + 1) · (dim + 2) / 2]

  bool operator==(const FmllrStatistics&) const = default;
};

class FmllrEstimator;

/// What is believed of a speaker before any speech, as if these statistics had been seen `weight` times: little
/// speech changes little then.
struct FmllrPrior {
  const FmllrEstimator* statistics = nullptr;  // null: nothing
  double weight = 0;
};

class FmllrEstimator {
 public:
  explicit FmllrEstimator(int64_t dim);
  /// Goes on from there. ShapeError for those of another dimension.
  FmllrEstimator(int64_t dim, const FmllrStatistics& statistics);

  /// Frames [N, dim] with, per frame and dimension, precision = Σ_m γ_m/σ²_m and weighted_mean = Σ_m γ_m μ_m/σ²_m, both
  /// [N, dim], over the Gaussians m that the frame's alignment gives posteriors γ_m; `posterior` is the sum of all γ.
  void Accumulate(ConstMatrixView frames, ConstMatrixView precision, ConstMatrixView weighted_mean, double posterior);
  /// What frames drawn from Gaussians would add, `frames` of each [G], with means and variances [G, dim] (not zero):
  /// their best transform is the identity.
  void AccumulateGaussians(ConstMatrixView means, ConstMatrixView variances, std::span<const float> frames);
  void Add(const FmllrEstimator& other, double weight = 1);
  double posterior() const { return beta_; }
  FmllrStatistics Statistics() const;

  struct Result {
    Matrix transform;        // [dim, dim + 1]
    double improvement = 0;  // per frame, the prior's included
    bool estimated = false;  // false: too little speech, the transform is the identity
  };
  /// With less than `min_posterior` frames' worth of posterior, the prior's aside, the identity is returned.
  Result Estimate(double min_posterior = 500, const FmllrPrior& prior = {}) const;

 private:
  Result Solve() const;
  double Auxiliary(const DoubleMatrix& w) const;
  void UpdateRow(int64_t i, const DoubleMatrix& inverse_g, DoubleMatrix& w) const;
  DoubleMatrix FullG(int64_t i) const;

  int64_t dim_;
  double beta_ = 0;
  DoubleMatrix k_;  // [dim, dim + 1]: Σ weighted_mean ξᵀ
  DoubleMatrix g_;  // [dim, (dim+1)(dim+2)/2]: Σ precision_i ξ ξᵀ, lower triangles
  Matrix products_;
  Matrix block_;
};

/// Products are computed for so many frames at a time, since each shape that is met is compiled.
inline constexpr int64_t kAffineBlockFrames = 128;
/// y [N, dim] = A x + b for transform [dim, dim + 1] (also of another input dimension: [out, in + 1]).
void ApplyAffine(ConstMatrixView transform, ConstMatrixView x, MatrixView y);
/// The affine transform that does `first`, then `second`; both [out, in + 1].
Matrix ComposeAffine(ConstMatrixView second, ConstMatrixView first);

}  // namespace antiphon::hmm
