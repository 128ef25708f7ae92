// EM for i-vector extractors. Speakers are taken in batches, whose sums are products of matrices; batches and the sums
// within them have a fixed order.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/thread_pool.h"
#include "hmm/ivector.h"

namespace antiphon::hmm {
namespace {

constexpr size_t kBatch = 64;  // speakers

void AddTo(DoubleMatrix& sum, const DoubleMatrix& more) {
  for (int64_t i = 0; i < sum.size(); ++i) sum.data()[i] += more.data()[i];
}

// The symmetric matrix that turns v into (|v|, 0, 0, …).
DoubleMatrix Reflection(std::span<const double> v) {
  const auto n = std::ssize(v);
  double norm = 0;
  for (const double x : v) norm += x * x;
  norm = std::sqrt(norm);
  std::vector<double> u(v.begin(), v.end());
  u[0] -= norm;
  double square = 0;
  for (const double x : u) square += x * x;
  DoubleMatrix q(n, n);
  for (int64_t i = 0; i < n; ++i) {
    q(i, i) = 1;
    if (square <= 1e-20 * norm * norm) continue;  // it lies there already
    for (int64_t j = 0; j < n; ++j) q(i, j) -= 2 * u[static_cast<size_t>(i)] * u[static_cast<size_t>(j)] / square;
  }
  return q;
}

}  // namespace

struct IvectorExtractor::Sums {
  double gain = 0;
  double speakers = 0;
  std::vector<double> w;  // Σ E[w]
  DoubleMatrix ww;        // Σ E[w wᵀ]
  DoubleMatrix squares;   // [C, triangle] Σ N_c E[w wᵀ]
  DoubleMatrix products;  // [C·D, R] Σ (Σ γ (x − base)) E[w]ᵀ
};

void IvectorExtractor::Accumulate(const SpeakerReader& speakers, double scale, int threads, Sums& sums) const {
  const int64_t d = background_.dim(), r = dim(), triangle = precisions_.cols();
  const int gaussians = background_.num_gaussians();
  for (size_t first = 0; first < speakers.count; first += kBatch) {
    const size_t count = std::min(kBatch, speakers.count - first);
    const auto n = static_cast<int64_t>(count);
    std::vector<Posterior> posteriors(count);
    DoubleMatrix counts(gaussians, n), away(gaussians * d, n), means(n, r), squares(n, triangle);
    ParallelFor(count, threads, [&](size_t i) {
      const IvectorStats stats = speakers.get(first + i);
      const auto s = static_cast<int64_t>(i);
      posteriors[i] = Infer(stats, scale);
      posteriors[i].mean[0] += prior_offset_;
      for (int g = 0; g < gaussians; ++g) {
        const double occupancy = stats.occupancy[static_cast<size_t>(g)];
        counts(g, s) = scale * occupancy;
        for (int64_t k = 0; k < d; ++k) away(g * d + k, s) = scale * (stats.sums(g, k) - occupancy * Base(g, k));
      }
      const std::vector<double>& w = posteriors[i].mean;
      double* to = squares.Row(s).data();
      for (int64_t a = 0; a < r; ++a) {
        means(s, a) = w[static_cast<size_t>(a)];
        for (int64_t b = 0; b <= a; ++b) {
          *to++ = posteriors[i].covariance(a, b) + w[static_cast<size_t>(a)] * w[static_cast<size_t>(b)];
        }
      }
    });
    AddTo(sums.squares, Product(counts, squares));
    AddTo(sums.products, Product(away, means));
    for (size_t i = 0; i < count; ++i) {
      const auto s = static_cast<int64_t>(i);
      sums.gain += posteriors[i].gain;
      const double* from = squares.Row(s).data();
      for (int64_t a = 0; a < r; ++a) {
        sums.w[static_cast<size_t>(a)] += means(s, a);
        for (int64_t b = 0; b <= a; ++b) sums.ww(a, b) += *from++;
      }
    }
    sums.speakers += static_cast<double>(count);
  }
}

double IvectorExtractor::Improve(const SpeakerReader& speakers, double scale, int threads) {
  if (speakers.count == 0) throw InputError("there is no speech to train an i-vector extractor on");
  const int64_t d = background_.dim(), r = dim();
  Sums sums{.w = std::vector<double>(static_cast<size_t>(r)),
            .ww = DoubleMatrix(r, r),
            .squares = DoubleMatrix(background_.num_gaussians(), precisions_.cols()),
            .products = DoubleMatrix(variability_.rows(), r)};
  Accumulate(speakers, scale, threads, sums);
  DoubleMatrix better = variability_;
  ParallelFor(static_cast<size_t>(background_.num_gaussians()), threads, [&](size_t gaussian) {
    const auto g = static_cast<int64_t>(gaussian);
    DoubleMatrix square(r, r);
    const double* from = sums.squares.Row(g).data();
    double trace = 0;
    for (int64_t a = 0; a < r; ++a) {
      for (int64_t b = 0; b <= a; ++b) square(a, b) = square(b, a) = *from++;
      trace += square(a, a);
    }
    // A Gaussian that hardly anybody uses keeps its row.
    const double offset = prior_offset_ * prior_offset_;
    if (!(trace > 1e-3 * (static_cast<double>(r) + offset))) return;
    const BasicMatrixView<double> rows = sums.products.view().Rows(g * d, d);
    const DoubleMatrix solved = Transposed(antiphon::Solve(square, Transposed(rows)));
    for (int64_t k = 0; k < d; ++k) std::copy_n(solved.Row(k).begin(), r, better.Row(g * d + k).begin());
  });
  variability_ = std::move(better);
  if (prior_offset_ > 0) ToUnitCovariance(sums);
  SetVariability(std::move(variability_));
  return sums.gain;
}

// w' = Q L⁻¹ w, with L Lᵀ the covariance of w over speakers and Q turning the mean of w into the first direction: what
// w says of the features stays the same.
void IvectorExtractor::ToUnitCovariance(const Sums& sums) {
  const int64_t r = dim();
  DoubleMatrix covariance(r, r), mean(r, 1);
  for (int64_t a = 0; a < r; ++a) mean(a, 0) = sums.w[static_cast<size_t>(a)] / sums.speakers;
  for (int64_t a = 0; a < r; ++a) {
    for (int64_t b = 0; b <= a; ++b) {
      covariance(a, b) = covariance(b, a) = sums.ww(a, b) / sums.speakers - mean(a, 0) * mean(b, 0);
    }
  }
  const DoubleMatrix root = Cholesky(covariance);
  const DoubleMatrix whitened = antiphon::Solve(root, mean);
  const DoubleMatrix turn = Reflection(std::span(whitened.data(), static_cast<size_t>(r)));
  double square = 0;
  for (int64_t a = 0; a < r; ++a) square += whitened(a, 0) * whitened(a, 0);
  prior_offset_ = std::sqrt(square);
  variability_ = Product(variability_, Product(root, turn));
}

}  // namespace antiphon::hmm
