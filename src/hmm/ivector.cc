#include "hmm/ivector.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/random.h"

namespace antiphon::hmm {
namespace {

size_t TriangleSize(int64_t dim) { return static_cast<size_t>(dim * (dim + 1) / 2); }

// The likeliest Gaussians of a frame, with a common total of 1. `log_likelihoods` are kFrameBlock apart.
void Share(const float* log_likelihoods, int gaussians, const IvectorOptions& options,
           std::vector<GaussianShare>& shares) {
  shares.clear();
  for (int g = 0; g < gaussians; ++g) {
    const auto value = static_cast<double>(log_likelihoods[int64_t{g} * kFrameBlock]);
    if (!std::isfinite(value)) throw InputError("a frame of the features is not finite, or out of all range");
    shares.push_back({g, value});
  }
  const size_t most = options.gaussians_per_frame > 0
                          ? std::min(shares.size(), static_cast<size_t>(options.gaussians_per_frame))
                          : shares.size();
  const auto likelier = [](const GaussianShare& a, const GaussianShare& b) {
    return a.posterior != b.posterior ? a.posterior > b.posterior : a.gaussian < b.gaussian;
  };
  std::partial_sort(shares.begin(), shares.begin() + static_cast<std::ptrdiff_t>(most), shares.end(), likelier);
  shares.resize(most);
  const double best = shares.front().posterior;
  double total = 0;
  for (GaussianShare& s : shares) total += s.posterior = std::exp(s.posterior - best);
  const double least = options.min_posterior * total;
  // The first one is the likeliest, and stays.
  const auto end = std::find_if(shares.begin() + 1, shares.end(), [&](const auto& s) { return s.posterior < least; });
  shares.erase(end, shares.end());
  total = 0;
  for (const GaussianShare& s : shares) total += s.posterior;
  for (GaussianShare& s : shares) s.posterior /= total;
}

}  // namespace

void IvectorStats::Add(const IvectorStats& other) {
  CHECK_EQ(occupancy.size(), other.occupancy.size());
  for (size_t g = 0; g < occupancy.size(); ++g) occupancy[g] += other.occupancy[g];
  for (int64_t i = 0; i < sums.size(); ++i) sums.data()[i] += other.sums.data()[i];
}

double IvectorStats::count() const { return std::accumulate(occupancy.begin(), occupancy.end(), 0.0); }

IvectorExtractor::IvectorExtractor(GmmSet background, const IvectorOptions& options, FeatureTransform transform,
                                   double prior_offset)
    : background_(std::move(background)),
      options_(options),
      transform_(std::move(transform)),
      prior_offset_(prior_offset) {
  if (background_.num_pdfs() != 1) {
    Throw<ShapeError>("a background is one mixture of Gaussians, found {}", background_.num_pdfs());
  }
  if (transform_.out_dim() == 0) transform_ = FeatureTransform::Identity(background_.dim());
  if (transform_.out_dim() != background_.dim()) {
    Throw<ShapeError>("the background has {} dimensions, but the transform before it gives {}", background_.dim(),
                      transform_.out_dim());
  }
  if (!(prior_offset_ >= 0) || !std::isfinite(prior_offset_)) {
    Throw<InputError>("the prior offset of an i-vector is 0 or more, found {}", prior_offset_);
  }
}

IvectorExtractor::IvectorExtractor(GmmSet background, int dim, uint64_t seed, const IvectorOptions& options,
                                   FeatureTransform transform, double prior_offset)
    : IvectorExtractor(std::move(background), options, std::move(transform), prior_offset) {
  const int64_t d = background_.dim();
  DoubleMatrix start(background_.num_gaussians() * d, dim);
  Rng rng(seed);
  for (int64_t r = 0; r < start.rows(); ++r) {
    const double deviation = std::sqrt(static_cast<double>(background_.variances()(r / d, r % d)));
    for (int64_t c = 0; c < dim; ++c) start(r, c) = 0.1 * deviation * rng.Normal();
    if (prior_offset_ > 0) start(r, 0) = static_cast<double>(background_.means()(r / d, r % d)) / prior_offset_;
  }
  SetVariability(std::move(start));
}

void IvectorExtractor::SetVariability(DoubleMatrix variability) {
  const int64_t expected = int64_t{background_.num_gaussians()} * background_.dim();
  if (variability.rows() != expected || variability.cols() < 1) {
    Throw<ShapeError>("the variability of {} Gaussians of {} dimensions has {} rows, found [{}, {}]",
                      background_.num_gaussians(), background_.dim(), expected, variability.rows(), variability.cols());
  }
  variability_ = std::move(variability);
  // As a file holds it, so that an extractor is the same from there.
  for (int64_t i = 0; i < variability_.size(); ++i) {
    variability_.data()[i] = static_cast<double>(static_cast<float>(variability_.data()[i]));
  }
  Prepare();
}

void IvectorExtractor::Prepare() {
  const int64_t d = background_.dim();
  precisions_ = DoubleMatrix(background_.num_gaussians(), static_cast<int64_t>(TriangleSize(dim())));
  for (int64_t r = 0; r < variability_.rows(); ++r) {
    const auto precision = static_cast<double>(background_.inverse_variances()(r / d, r % d));
    double* to = precisions_.Row(r / d).data();
    const double* const row = variability_.Row(r).data();
    for (int i = 0; i < dim(); ++i) {
      const double factor = precision * row[i];
      for (int j = 0; j <= i; ++j) *to++ += factor * row[j];
    }
  }
}

double IvectorExtractor::Base(int gaussian, int64_t d) const {
  return prior_offset_ > 0 ? 0.0 : static_cast<double>(background_.means()(gaussian, d));
}

IvectorStats IvectorExtractor::NoSpeech() const {
  return {std::vector<double>(static_cast<size_t>(background_.num_gaussians())),
          DoubleMatrix(background_.num_gaussians(), background_.dim())};
}

void IvectorExtractor::Shares(ConstMatrixView transformed,
                              const std::function<void(int64_t frame, std::span<const GaussianShare>)>& use) const {
  const FrameBlocks blocks(transformed);
  const int gaussians = background_.num_gaussians();
  std::vector<float> scores(static_cast<size_t>(gaussians) * kFrameBlock);
  std::vector<GaussianShare> shares;
  for (int b = 0; b < blocks.num_blocks(); ++b) {
    background_.GaussianLogLikelihoods(0, blocks.Block(b), scores.data());
    const int64_t first = int64_t{b} * kFrameBlock;
    for (int64_t t = first; t < std::min<int64_t>(first + kFrameBlock, transformed.rows()); ++t) {
      Share(scores.data() + (t - first), gaussians, options_, shares);
      use(t, shares);
    }
  }
}

IvectorStats IvectorExtractor::Collect(ConstMatrixView frames) const {
  if (frames.rows() > 0 && frames.cols() != feature_dim()) {
    Throw<ShapeError>("the i-vector extractor is for {} features per frame, found {}", feature_dim(), frames.cols());
  }
  const Matrix transformed = transform_.Apply(frames);
  IvectorStats stats = NoSpeech();
  Shares(transformed, [&](int64_t t, std::span<const GaussianShare> shares) {
    const auto x = transformed.Row(t);
    for (const auto& [gaussian, posterior] : shares) {
      stats.occupancy[static_cast<size_t>(gaussian)] += posterior;
      double* const sum = stats.sums.Row(gaussian).data();
      for (size_t d = 0; d < x.size(); ++d) sum[d] += posterior * static_cast<double>(x[d]);
    }
  });
  return stats;
}

void IvectorExtractor::AddProjected(int gaussian, double weight, std::span<const float> x,
                                    std::span<double> linear) const {
  const int64_t first = int64_t{gaussian} * background_.dim();
  for (size_t d = 0; d < x.size(); ++d) {
    const auto column = static_cast<int64_t>(d);
    const double away = static_cast<double>(x[d]) - Base(gaussian, column);
    const double factor = weight * away * static_cast<double>(background_.inverse_variances()(gaussian, column));
    const double* const row = variability_.Row(first + column).data();
    for (size_t c = 0; c < linear.size(); ++c) linear[c] += factor * row[c];
  }
}

std::vector<double> IvectorExtractor::Projected(const IvectorStats& stats, double scale) const {
  const int64_t d = background_.dim();
  std::vector<double> result(static_cast<size_t>(dim()));
  for (int64_t r = 0; r < variability_.rows(); ++r) {
    const auto g = static_cast<int>(r / d);
    const double away = stats.sums(g, r % d) - stats.occupancy[static_cast<size_t>(g)] * Base(g, r % d);
    const double weight = scale * away * static_cast<double>(background_.inverse_variances()(g, r % d));
    const double* const row = variability_.Row(r).data();
    for (size_t c = 0; c < result.size(); ++c) result[c] += weight * row[c];
  }
  return result;
}

std::vector<double> IvectorExtractor::Quadratic(const IvectorStats& stats, double scale) const {
  std::vector<double> result(TriangleSize(dim()));
  for (int g = 0; g < background_.num_gaussians(); ++g) {
    const double count = scale * stats.occupancy[static_cast<size_t>(g)];
    if (count == 0) continue;
    const std::span<const double> precision = Precision(g);
    for (size_t i = 0; i < result.size(); ++i) result[i] += count * precision[i];
  }
  return result;
}

namespace {

DoubleMatrix Symmetric(int dim, double diagonal, std::span<const double> triangle) {
  DoubleMatrix m(dim, dim);
  const double* from = triangle.data();
  for (int i = 0; i < dim; ++i) {
    for (int j = 0; j <= i; ++j) m(i, j) = m(j, i) = *from++;
    m(i, i) += diagonal;
  }
  return m;
}

}  // namespace

std::vector<double> IvectorExtractor::Solve(double prior, std::span<const double> quadratic,
                                            std::span<const double> linear) const {
  DoubleMatrix right(dim(), 1);
  for (int i = 0; i < dim(); ++i) right(i, 0) = linear[static_cast<size_t>(i)];
  right(0, 0) += prior * prior_offset_;
  const DoubleMatrix solved = antiphon::Solve(Symmetric(dim(), prior, quadratic), right);
  std::vector<double> w(solved.data(), solved.data() + dim());
  w[0] -= prior_offset_;
  return w;
}

IvectorExtractor::Posterior IvectorExtractor::Infer(const IvectorStats& stats, double scale, double max_count) const {
  const double prior = max_count > 0 ? std::max(1.0, scale * stats.count() / max_count) : 1.0;
  const std::vector<double> quadratic = Quadratic(stats, scale), projected = Projected(stats, scale);
  const DoubleMatrix precision = Symmetric(dim(), prior, quadratic);
  Posterior posterior;
  posterior.mean = Solve(prior, quadratic, projected);
  posterior.covariance = Inverse(precision);
  // log ∫ p(x | w) p(w) dw over p(x | base) is ½ bᵀ A⁻¹ b − ½ log |A| − ½ p² with b the right-hand side.
  posterior.gain = -0.5 * LogDet(precision).log_abs - 0.5 * prior_offset_ * prior_offset_;
  for (int i = 0; i < dim(); ++i) {
    const double offset = i == 0 ? prior_offset_ : 0.0;
    posterior.gain +=
        0.5 * (posterior.mean[static_cast<size_t>(i)] + offset) * (projected[static_cast<size_t>(i)] + prior * offset);
  }
  if (prior_offset_ == 0) return posterior;
  // Counted from the background's means, as without an offset.
  for (int g = 0; g < background_.num_gaussians(); ++g) {
    for (int64_t d = 0; d < background_.dim(); ++d) {
      const auto mean = static_cast<double>(background_.means()(g, d));
      const double of_mean = stats.sums(g, d) - 0.5 * stats.occupancy[static_cast<size_t>(g)] * mean;
      posterior.gain -= scale * mean * static_cast<double>(background_.inverse_variances()(g, d)) * of_mean;
    }
  }
  return posterior;
}

std::vector<float> IvectorExtractor::Vector(const IvectorStats& stats) const {
  const std::vector<double> mean = Infer(stats, options_.posterior_scale, options_.max_count).mean;
  std::vector<float> vector;
  for (const double v : mean) vector.push_back(static_cast<float>(options_.vector_scale * v));
  return vector;
}

}  // namespace antiphon::hmm
