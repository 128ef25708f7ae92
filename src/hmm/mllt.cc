#include "hmm/mllt.h"

#include <cmath>
#include <numeric>

#include "math/linalg.h"

namespace antiphon::hmm {
namespace {

// β log|det M| − ½ Σ_i m_i G_i m_iᵀ, per frame.
double Auxiliary(const DoubleMatrix& transform, const std::vector<DoubleMatrix>& g, double beta) {
  double value = beta * LogDet(transform).log_abs;
  for (int64_t i = 0; i < transform.rows(); ++i) {
    for (int64_t j = 0; j < transform.cols(); ++j) {
      for (int64_t k = 0; k < transform.cols(); ++k) {
        value -= 0.5 * transform(i, j) * g[static_cast<size_t>(i)](j, k) * transform(i, k);
      }
    }
  }
  return value / beta;
}

}  // namespace

MlltEstimator::MlltEstimator(int64_t dim, int64_t num_gaussians)
    : dim_(dim), counts_(static_cast<size_t>(num_gaussians), 0.0), scatter_(num_gaussians, dim * (dim + 1) / 2) {}

void MlltEstimator::Accumulate(int64_t gaussian, std::span<const float> deviation, float posterior) {
  DCHECK(std::ssize(deviation) == dim_);
  counts_[static_cast<size_t>(gaussian)] += posterior;
  float* out = scatter_.Row(gaussian).data();
  for (int64_t i = 0; i < dim_; ++i) {
    const float weighted = posterior * deviation[static_cast<size_t>(i)];
    for (int64_t j = 0; j <= i; ++j) out[j] += weighted * deviation[static_cast<size_t>(j)];
    out += i + 1;
  }
}

void MlltEstimator::Add(const MlltEstimator& other) {
  CHECK_EQ(other.dim_, dim_);
  CHECK_EQ(other.counts_.size(), counts_.size());
  for (size_t g = 0; g < counts_.size(); ++g) counts_[g] += other.counts_[g];
  for (int64_t i = 0; i < scatter_.size(); ++i) scatter_.data()[i] += other.scatter_.data()[i];
}

MlltEstimator::Result MlltEstimator::Estimate(ConstMatrixView inverse_variances, int iterations) const {
  CHECK_EQ(inverse_variances.rows(), scatter_.rows());
  CHECK_EQ(inverse_variances.cols(), dim_);
  const double beta = std::accumulate(counts_.begin(), counts_.end(), 0.0);
  if (beta < static_cast<double>(2 * dim_)) {
    Throw<InputError>("a linear transform of {} dimensions cannot be estimated from {:.0f} frames; give it more speech",
                      dim_, beta);
  }
  std::vector<DoubleMatrix> g(static_cast<size_t>(dim_), DoubleMatrix(dim_, dim_));
  for (int64_t m = 0; m < scatter_.rows(); ++m) {
    if (counts_[static_cast<size_t>(m)] == 0) continue;
    const float* s = scatter_.Row(m).data();
    for (int64_t i = 0; i < dim_; ++i) {
      const double weight = inverse_variances(m, i);
      double* lower = g[static_cast<size_t>(i)].data();
      int64_t at = 0;
      for (int64_t j = 0; j < dim_; ++j) {
        for (int64_t k = 0; k <= j; ++k) lower[j * dim_ + k] += weight * s[at++];
      }
    }
  }
  std::vector<DoubleMatrix> inverses;
  for (DoubleMatrix& matrix : g) {
    for (int64_t j = 0; j < dim_; ++j) {
      for (int64_t k = 0; k < j; ++k) matrix(k, j) = matrix(j, k);
    }
    inverses.push_back(Inverse(matrix));
  }

  DoubleMatrix transform(dim_, dim_);
  for (int64_t i = 0; i < dim_; ++i) transform(i, i) = 1;
  const double before = Auxiliary(transform, g, beta);
  std::vector<double> row(static_cast<size_t>(dim_));
  for (int iteration = 0; iteration < iterations; ++iteration) {
    for (int64_t i = 0; i < dim_; ++i) {
      // Column i of M⁻¹ is the row of cofactors of m_i up to the determinant, which cancels.
      const DoubleMatrix inverse = Inverse(transform);
      double length = 0;
      for (int64_t j = 0; j < dim_; ++j) {
        row[static_cast<size_t>(j)] = 0;
        for (int64_t k = 0; k < dim_; ++k) {
          row[static_cast<size_t>(j)] += inverse(k, i) * inverses[static_cast<size_t>(i)](k, j);
        }
        length += row[static_cast<size_t>(j)] * inverse(j, i);
      }
      const double scale = std::sqrt(beta / length);
      for (int64_t j = 0; j < dim_; ++j) transform(i, j) = scale * row[static_cast<size_t>(j)];
    }
  }
  return {ToFloat(transform), Auxiliary(transform, g, beta) - before};
}

}  // namespace antiphon::hmm
