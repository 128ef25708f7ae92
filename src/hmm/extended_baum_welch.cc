#include "hmm/extended_baum_welch.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"

namespace antiphon::hmm {
namespace {

constexpr int kWeightIterations = 50;

// A Gaussian's statistics, numerator less denominator, about its mean: so little is lost to rounding.
struct Difference {
  double count = 0;
  std::vector<double> first;   // Σ (x − μ)
  std::vector<double> second;  // Σ (x − μ)²
};

Difference DifferenceAbout(std::span<const float> mean, const GmmStats& numerator, const GmmStats& denominator, int g) {
  const size_t dim = mean.size();
  Difference result{numerator.Occupancy(g) - denominator.Occupancy(g), std::vector<double>(dim),
                    std::vector<double>(dim)};
  const double* plus = numerator.sums().Row(g).data();
  const double* minus = denominator.sums().Row(g).data();
  for (size_t d = 0; d < dim; ++d) {
    const auto m = static_cast<double>(mean[d]);
    const double sum = plus[d] - minus[d];
    result.first[d] = sum - result.count * m;
    result.second[d] = plus[dim + d] - minus[dim + d] - 2 * m * sum + result.count * m * m;
  }
  return result;
}

// The least D from which on the count and all variances are positive: n = D + count, and
// n² σ²' = D² σ² + D (second + count σ²) + count second − first².
double LeastConstant(const Difference& s, std::span<const float> variance) {
  double least = std::max(0.0, -s.count);
  for (size_t d = 0; d < variance.size(); ++d) {
    const auto a = static_cast<double>(variance[d]);
    const double b = s.second[d] + s.count * a;
    const double c = s.count * s.second[d] - s.first[d] * s.first[d];
    const double discriminant = b * b - 4 * a * c;
    if (discriminant < 0) continue;
    least = std::max(least, (-b + std::sqrt(discriminant)) / (2 * a));
  }
  return least;
}

// Of one mixture; weights that are too small are raised.
void UpdateWeights(std::span<float> weights, std::span<const double> numerator, std::span<const double> denominator,
                   const EbwOptions& options) {
  const size_t count = weights.size();
  std::vector<double> now(count), plus(count), slope(count);
  for (size_t g = 0; g < count; ++g) {
    now[g] = std::max(static_cast<double>(weights[g]), options.min_weight);
    plus[g] = numerator[g] + options.weight_tau * now[g];
    slope[g] = denominator[g] / now[g];
  }
  const double steepest = *std::max_element(slope.begin(), slope.end());
  const auto normalise = [&] {
    const double sum = std::accumulate(now.begin(), now.end(), 0.0);
    for (double& weight : now) weight /= sum;
    return sum;
  };
  normalise();
  for (int i = 0; i < kWeightIterations; ++i) {
    for (size_t g = 0; g < count; ++g) now[g] = plus[g] + (steepest - slope[g]) * now[g];
    // Nothing is for any Gaussian, and as much against each: no weights are better than others.
    if (!(normalise() > 0)) return;
  }
  for (double& weight : now) weight = std::max(weight, options.min_weight);
  normalise();
  for (size_t g = 0; g < count; ++g) weights[g] = static_cast<float>(now[g]);
}

}  // namespace

GmmSet ExtendedBaumWelch(const GmmSet& gmm, const GmmStats& numerator, const GmmStats& denominator,
                         const EbwOptions& options, EbwReport* report) {
  CHECK_EQ(numerator.sums().rows(), gmm.num_gaussians());
  CHECK_EQ(denominator.sums().rows(), gmm.num_gaussians());
  std::vector<float> weights(gmm.weights().begin(), gmm.weights().end());
  Matrix means = gmm.means();
  Matrix variances = gmm.variances();
  std::vector<double> plus, minus;
  for (int g = 0; g < gmm.num_gaussians(); ++g) {
    plus.push_back(numerator.Occupancy(g));
    minus.push_back(denominator.Occupancy(g));
    if (plus.back() == 0 && minus.back() == 0) continue;
    const Difference s = DifferenceAbout(gmm.means().Row(g), numerator, denominator, g);
    const double wanted = options.tau + options.e * minus.back();
    const double needed = 2 * LeastConstant(s, gmm.variances().Row(g));
    const double d_constant = std::max(wanted, needed);
    const double count = s.count + d_constant;
    if (!(count > 0)) continue;
    for (size_t d = 0; d < s.first.size(); ++d) {
      const auto i = static_cast<int64_t>(d);
      const double shift = s.first[d] / count;
      const double variance =
          (s.second[d] + d_constant * static_cast<double>(gmm.variances()(g, i))) / count - shift * shift;
      means(g, i) = static_cast<float>(static_cast<double>(gmm.means()(g, i)) + shift);
      variances(g, i) = static_cast<float>(std::max(variance, options.min_variance));
      report->floored += variance < options.min_variance ? 1 : 0;
    }
    ++report->updated;
    report->slowed += needed > wanted ? 1 : 0;
  }
  for (int32_t pdf = 0; pdf < gmm.num_pdfs(); ++pdf) {
    const auto first = static_cast<size_t>(gmm.FirstGaussian(pdf));
    const auto size = static_cast<size_t>(gmm.NumGaussians(pdf));
    const auto frames = std::span(plus).subspan(first, size), against = std::span(minus).subspan(first, size);
    const double seen =
        std::accumulate(frames.begin(), frames.end(), 0.0) + std::accumulate(against.begin(), against.end(), 0.0);
    if (size == 1 || seen == 0) continue;
    UpdateWeights(std::span(weights).subspan(first, size), frames, against, options);
    ++report->updated_weights;
  }
  const auto firsts = gmm.first_gaussians();
  return {std::vector<int32_t>(firsts.begin(), firsts.end()), std::move(weights), std::move(means),
          std::move(variances)};
}

}  // namespace antiphon::hmm
