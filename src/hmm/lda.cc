#include "hmm/lda.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "math/gemm.h"
#include "math/linalg.h"

namespace antiphon::hmm {
namespace {

constexpr int64_t kScatterFrames = 256;  // summed in float before the double total

}  // namespace

LdaEstimator::LdaEstimator(int64_t dim, int num_classes)
    : dim_(dim),
      counts_(static_cast<size_t>(num_classes), 0.0),
      sums_(num_classes, dim),
      squares_(dim, dim),
      block_(dim, dim) {}

void LdaEstimator::Accumulate(ConstMatrixView frames, std::span<const int32_t> classes) {
  CHECK_EQ(frames.cols(), dim_);
  CHECK_EQ(frames.rows(), std::ssize(classes));
  Matrix used(std::min(frames.rows(), kScatterFrames), dim_);
  int64_t filled = 0;
  auto flush = [&] {
    if (filled == 0) return;
    const ConstMatrixView rows = used.view().Rows(0, filled);
    Gemm(Transpose::kYes, rows, Transpose::kNo, rows, block_);
    for (int64_t i = 0; i < dim_; ++i) {
      for (int64_t j = 0; j < dim_; ++j) squares_(i, j) += block_(i, j);
    }
    filled = 0;
  };
  for (int64_t n = 0; n < frames.rows(); ++n) {
    const int32_t cls = classes[static_cast<size_t>(n)];
    if (cls < 0) continue;
    CHECK_LT(static_cast<size_t>(cls), counts_.size());
    counts_[static_cast<size_t>(cls)] += 1;
    const std::span<const float> x = frames.Row(n);
    for (int64_t d = 0; d < dim_; ++d) sums_(cls, d) += x[static_cast<size_t>(d)];
    std::copy(x.begin(), x.end(), used.Row(filled).begin());
    if (++filled == used.rows()) flush();
  }
  flush();
}

void LdaEstimator::Add(const LdaEstimator& other) {
  CHECK_EQ(other.dim_, dim_);
  CHECK_EQ(other.counts_.size(), counts_.size());
  for (size_t c = 0; c < counts_.size(); ++c) counts_[c] += other.counts_[c];
  for (int64_t i = 0; i < sums_.size(); ++i) sums_.data()[i] += other.sums_.data()[i];
  for (int64_t i = 0; i < squares_.size(); ++i) squares_.data()[i] += other.squares_.data()[i];
}

double LdaEstimator::num_frames() const { return std::accumulate(counts_.begin(), counts_.end(), 0.0); }

LdaEstimator::Result LdaEstimator::Estimate(int64_t out_dim, bool center, double within_class_share) const {
  const double n = num_frames();
  CHECK(out_dim > 0 && out_dim <= dim_) << out_dim << " of " << dim_;
  if (n <= static_cast<double>(dim_)) {
    Throw<InputError>("discriminant analysis of {} dimensions needs more than {} frames; give it more speech", dim_, n);
  }
  std::vector<double> mean(static_cast<size_t>(dim_), 0.0);
  DoubleMatrix between(dim_, dim_);  // Σ_c n_c m_c m_cᵀ / n − m mᵀ
  for (int64_t c = 0; c < sums_.rows(); ++c) {
    const double count = counts_[static_cast<size_t>(c)];
    if (count == 0) continue;
    for (int64_t i = 0; i < dim_; ++i) {
      mean[static_cast<size_t>(i)] += sums_(c, i) / n;
      for (int64_t j = 0; j < dim_; ++j) between(i, j) += sums_(c, i) * sums_(c, j) / (count * n);
    }
  }
  DoubleMatrix within(dim_, dim_);
  for (int64_t i = 0; i < dim_; ++i) {
    for (int64_t j = 0; j < dim_; ++j) {
      within(i, j) = squares_(i, j) / n - between(i, j);
      between(i, j) -= mean[static_cast<size_t>(i)] * mean[static_cast<size_t>(j)];
    }
  }
  // With L Lᵀ the within-class covariance, the rows wanted are vᵀ L⁻¹ for the leading eigenvectors v of L⁻¹ B L⁻ᵀ.
  const DoubleMatrix inverse = Inverse(Cholesky(within));
  const DoubleMatrix whitened = Product(Product(inverse, between), Transposed(inverse));
  const SymEigResult eig = SymEig(whitened);
  const DoubleMatrix rows = Product(eig.vectors, inverse);

  Result result{Matrix(out_dim, dim_ + 1), {}};
  for (int64_t k = 0; k < out_dim; ++k) {
    const double separation = std::max(eig.values[static_cast<size_t>(k)], 0.0);
    const double scale = std::sqrt((within_class_share + separation) / (1 + separation));
    double offset = 0;
    for (int64_t d = 0; d < dim_; ++d) {
      result.transform(k, d) = static_cast<float>(scale * rows(k, d));
      offset -= scale * rows(k, d) * mean[static_cast<size_t>(d)];
    }
    result.transform(k, dim_) = center ? static_cast<float>(offset) : 0.0f;
    result.separation.push_back(separation);
  }
  return result;
}

}  // namespace antiphon::hmm
