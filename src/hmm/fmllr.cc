#include "hmm/fmllr.h"

#include <algorithm>
#include <cmath>

#include "math/gemm.h"
#include "math/linalg.h"

namespace antiphon::hmm {
namespace {

// Summed in float before the double total; fewer are filled up, as a product is compiled for each shape that it meets.
constexpr int64_t kBlockFrames = 256;
constexpr int kIterations = 20;

// `rows`, and below them zeros.
void FillBlock(ConstMatrixView rows, Matrix& block) {
  for (int64_t r = 0; r < rows.rows(); ++r) std::ranges::copy(rows.Row(r), block.Row(r).begin());
  for (int64_t r = rows.rows(); r < block.rows(); ++r) std::ranges::fill(block.Row(r), 0.0F);
}

void AddTo(DoubleMatrix& total, const Matrix& block) {
  for (int64_t i = 0; i < total.size(); ++i) total.data()[i] += block.data()[i];
}

DoubleMatrix Identity(int64_t dim) {
  DoubleMatrix w(dim, dim + 1);
  for (int64_t i = 0; i < dim; ++i) w(i, i) = 1;
  return w;
}

DoubleMatrix SquarePart(const DoubleMatrix& w) {
  return DoubleMatrix(ConstDoubleView(w.data(), w.rows(), w.rows(), w.cols()));
}

}  // namespace

FmllrEstimator::FmllrEstimator(int64_t dim) : dim_(dim), k_(dim, dim + 1), g_(dim, (dim + 1) * (dim + 2) / 2) {}

FmllrEstimator::FmllrEstimator(int64_t dim, const FmllrStatistics& statistics) : FmllrEstimator(dim) {
  beta_ = statistics.posterior;
  if (statistics.linear.empty() && statistics.quadratic.empty()) return;
  if (std::ssize(statistics.linear) != k_.size() || std::ssize(statistics.quadratic) != g_.size()) {
    Throw<ShapeError>("statistics of a transform have {} and {} numbers, expected {} and {}", statistics.linear.size(),
                      statistics.quadratic.size(), k_.size(), g_.size());
  }
  std::ranges::copy(statistics.linear, k_.data());
  std::ranges::copy(statistics.quadratic, g_.data());
}

FmllrStatistics FmllrEstimator::Statistics() const {
  if (beta_ == 0) return {};
  return {beta_, {k_.data(), k_.data() + k_.size()}, {g_.data(), g_.data() + g_.size()}};
}

void FmllrEstimator::Accumulate(ConstMatrixView frames, ConstMatrixView precision, ConstMatrixView weighted_mean,
                                double posterior) {
  CHECK_EQ(frames.cols(), dim_);
  CHECK_EQ(precision.rows(), frames.rows());
  CHECK_EQ(weighted_mean.rows(), frames.rows());
  beta_ += posterior;
  Matrix extended(kBlockFrames, dim_ + 1), precisions(kBlockFrames, dim_), means(kBlockFrames, dim_);
  products_.Resize(kBlockFrames, g_.cols());
  for (int64_t first = 0; first < frames.rows(); first += kBlockFrames) {
    const int64_t count = std::min(kBlockFrames, frames.rows() - first);
    FillBlock(precision.Rows(first, count), precisions);
    FillBlock(weighted_mean.Rows(first, count), means);
    if (count < kBlockFrames) {
      extended.SetZero();
      products_.SetZero();
    }
    // All of a frame's products ξ_j ξ_k side by side turn the sums over frames into two matrix products.
    for (int64_t n = 0; n < count; ++n) {
      const std::span<const float> x = frames.Row(first + n);
      float* xi = extended.Row(n).data();
      std::copy(x.begin(), x.end(), xi);
      xi[dim_] = 1;
      float* out = products_.Row(n).data();
      for (int64_t j = 0; j <= dim_; ++j) {
        for (int64_t k = 0; k <= j; ++k) out[k] = xi[j] * xi[k];
        out += j + 1;
      }
    }
    block_.Resize(dim_, g_.cols());
    Gemm(Transpose::kYes, precisions, Transpose::kNo, products_, block_);
    AddTo(g_, block_);
    block_.Resize(dim_, dim_ + 1);
    Gemm(Transpose::kYes, means, Transpose::kNo, extended, block_);
    AddTo(k_, block_);
  }
}

void FmllrEstimator::AccumulateGaussians(ConstMatrixView means, ConstMatrixView variances,
                                         std::span<const float> frames) {
  CHECK_EQ(variances.rows(), means.rows());
  CHECK_EQ(std::ssize(frames), means.rows());
  Matrix precision(means.rows(), dim_), weighted_mean(means.rows(), dim_);
  double posterior = 0;
  for (int64_t m = 0; m < means.rows(); ++m) {
    posterior += frames[static_cast<size_t>(m)];
    for (int64_t i = 0; i < dim_; ++i) {
      precision(m, i) = frames[static_cast<size_t>(m)] / variances(m, i);
      weighted_mean(m, i) = precision(m, i) * means(m, i);
    }
  }
  Accumulate(means, precision, weighted_mean, posterior);
  // E[ξ ξᵀ] has the variances besides.
  for (int64_t m = 0; m < means.rows(); ++m) {
    for (int64_t i = 0; i < dim_; ++i) {
      for (int64_t j = 0; j < dim_; ++j) g_(i, j * (j + 1) / 2 + j) += precision(m, i) * variances(m, j);
    }
  }
}

void FmllrEstimator::Add(const FmllrEstimator& other, double weight) {
  CHECK_EQ(other.dim_, dim_);
  beta_ += weight * other.beta_;
  for (int64_t i = 0; i < k_.size(); ++i) k_.data()[i] += weight * other.k_.data()[i];
  for (int64_t i = 0; i < g_.size(); ++i) g_.data()[i] += weight * other.g_.data()[i];
}

DoubleMatrix FmllrEstimator::FullG(int64_t i) const {
  DoubleMatrix full(dim_ + 1, dim_ + 1);
  const double* lower = g_.Row(i).data();
  for (int64_t j = 0; j <= dim_; ++j) {
    for (int64_t k = 0; k <= j; ++k) full(j, k) = full(k, j) = lower[k];
    lower += j + 1;
  }
  return full;
}

// β log|det A| + Σ_i (w_i k_iᵀ − ½ w_i G_i w_iᵀ).
double FmllrEstimator::Auxiliary(const DoubleMatrix& w) const {
  double value = beta_ * LogDet(SquarePart(w)).log_abs;
  for (int64_t i = 0; i < dim_; ++i) {
    const DoubleMatrix g = FullG(i);
    for (int64_t j = 0; j <= dim_; ++j) {
      double row = 0;
      for (int64_t k = 0; k <= dim_; ++k) row += g(j, k) * w(i, k);
      value += w(i, j) * (k_(i, j) - 0.5 * row);
    }
  }
  return value;
}

// The best row i given the others: w = (α c + k) G⁻¹ with c the extended cofactors and α a root of a quadratic.
void FmllrEstimator::UpdateRow(int64_t i, const DoubleMatrix& inverse_g, DoubleMatrix& w) const {
  const DoubleMatrix inverse = Inverse(SquarePart(w));
  const int64_t size = dim_ + 1;
  std::vector<double> c_g(static_cast<size_t>(size), 0.0);
  std::vector<double> k_g(static_cast<size_t>(size), 0.0);
  for (int64_t j = 0; j < size; ++j) {
    for (int64_t k = 0; k < size; ++k) {
      const double cofactor = k < dim_ ? inverse(k, i) : 0.0;
      c_g[static_cast<size_t>(j)] += cofactor * inverse_g(k, j);
      k_g[static_cast<size_t>(j)] += k_(i, k) * inverse_g(k, j);
    }
  }
  double e1 = 0;
  double e2 = 0;
  for (int64_t j = 0; j < dim_; ++j) {
    e1 += c_g[static_cast<size_t>(j)] * inverse(j, i);
    e2 += k_g[static_cast<size_t>(j)] * inverse(j, i);
  }
  const double discriminant = std::sqrt(e2 * e2 + 4 * e1 * beta_);
  double best_alpha = 0;
  double best_value = -INFINITY;
  for (const double alpha : {(-e2 + discriminant) / (2 * e1), (-e2 - discriminant) / (2 * e1)}) {
    const double value = beta_ * std::log(std::abs(alpha * e1 + e2)) - 0.5 * alpha * alpha * e1;
    if (value > best_value) {
      best_value = value;
      best_alpha = alpha;
    }
  }
  for (int64_t j = 0; j < size; ++j) {
    w(i, j) = best_alpha * c_g[static_cast<size_t>(j)] + k_g[static_cast<size_t>(j)];
  }
}

FmllrEstimator::Result FmllrEstimator::Estimate(double min_posterior, const FmllrPrior& prior) const {
  const Result none{ToFloat(Identity(dim_)), 0, false};
  if (beta_ < min_posterior) return none;
  if (prior.statistics != nullptr && prior.weight * prior.statistics->posterior() > 0) {
    FmllrEstimator both = *this;
    both.Add(*prior.statistics, prior.weight);
    return both.Solve();
  }
  return beta_ > static_cast<double>(dim_) ? Solve() : none;
}

FmllrEstimator::Result FmllrEstimator::Solve() const {
  DoubleMatrix w = Identity(dim_);
  std::vector<DoubleMatrix> inverses;
  for (int64_t i = 0; i < dim_; ++i) inverses.push_back(Inverse(FullG(i)));
  const double before = Auxiliary(w);
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    for (int64_t i = 0; i < dim_; ++i) UpdateRow(i, inverses[static_cast<size_t>(i)], w);
  }
  const double improvement = (Auxiliary(w) - before) / beta_;
  return {ToFloat(w), improvement, true};
}

void ApplyAffine(ConstMatrixView transform, ConstMatrixView x, MatrixView y) {
  const int64_t in_dim = transform.cols() - 1;
  if (x.cols() != in_dim || y.cols() != transform.rows() || x.rows() != y.rows()) {
    Throw<ShapeError>("an affine transform {} x {} cannot map frames {} x {} to {} x {}", transform.rows(),
                      transform.cols(), x.rows(), x.cols(), y.rows(), y.cols());
  }
  std::vector<float> offset;
  for (int64_t i = 0; i < transform.rows(); ++i) offset.push_back(transform(i, in_dim));
  GemmEpilogue epilogue;
  epilogue.bias = offset.data();
  const auto apply = [&](ConstMatrixView from, MatrixView to) {
    Gemm(Transpose::kNo, from, Transpose::kYes, transform.Cols(0, in_dim), to, epilogue);
  };
  const int64_t left = x.rows() % kAffineBlockFrames, whole = x.rows() - left;
  for (int64_t first = 0; first < whole; first += kAffineBlockFrames)
    apply(x.Rows(first, kAffineBlockFrames), y.Rows(first, kAffineBlockFrames));
  if (left == 0) return;
  Matrix from(kAffineBlockFrames, in_dim), to(kAffineBlockFrames, y.cols());
  FillBlock(x.Rows(whole, left), from);
  apply(from, to);
  for (int64_t r = 0; r < left; ++r) std::ranges::copy(to.Row(r), y.Row(whole + r).begin());
}

Matrix ComposeAffine(ConstMatrixView second, ConstMatrixView first) {
  const int64_t middle = second.cols() - 1;
  if (first.rows() != middle) {
    Throw<ShapeError>("cannot put a transform {} x {} after one {} x {}", second.rows(), second.cols(), first.rows(),
                      first.cols());
  }
  Matrix both(second.rows(), first.cols());
  Gemm(Transpose::kNo, second.Cols(0, middle), Transpose::kNo, first, both);
  for (int64_t i = 0; i < both.rows(); ++i) both(i, both.cols() - 1) += second(i, middle);
  return both;
}

}  // namespace antiphon::hmm
