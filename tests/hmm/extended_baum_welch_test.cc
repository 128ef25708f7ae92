#include "hmm/extended_baum_welch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "random_matrix.h"

namespace antiphon::hmm {
namespace {

constexpr int kDim = 3;
constexpr int kEbwFrames = 40;

// Mixtures of two, one and three Gaussians.
GmmSet EbwMixtures() {
  Rng rng(3);
  Matrix means = testing::RandomMatrix(6, kDim, 1);
  Matrix variances(6, kDim);
  for (int64_t i = 0; i < variances.size(); ++i) variances.data()[i] = static_cast<float>(0.4 + rng.Uniform());
  return {{0, 2, 3, 6}, {0.3F, 0.7F, 1.0F, 0.2F, 0.5F, 0.3F}, std::move(means), std::move(variances)};
}

double LogNormal(double x, double mean, double variance) {
  return -0.5 * (std::log(2 * M_PI * variance) + (x - mean) * (x - mean) / variance);
}

// Frames of each pdf-id with weights, as they are told to GmmStats and summed up here in double.
struct WeighedSpeech {
  Matrix frames = testing::RandomMatrix(kEbwFrames, kDim, 5);
  std::vector<std::vector<FrameWeight>> weights;  // by pdf-id

  GmmStats Stats(const GmmSet& gmm) const {
    GmmStats stats(gmm);
    const FrameBlocks blocks(frames);
    for (size_t pdf = 0; pdf < weights.size(); ++pdf)
      stats.AccumulateWeighted(gmm, frames, blocks, static_cast<int32_t>(pdf), weights[pdf]);
    return stats;
  }
  double Posterior(const GmmSet& gmm, int32_t pdf, int gaussian, int frame) const {
    double total = 0, mine = 0;
    for (int g = gmm.FirstGaussian(pdf); g < gmm.FirstGaussian(pdf) + gmm.NumGaussians(pdf); ++g) {
      double likelihood = std::log(static_cast<double>(gmm.weights()[static_cast<size_t>(g)]));
      for (int d = 0; d < kDim; ++d)
        likelihood += LogNormal(static_cast<double>(frames(frame, d)), static_cast<double>(gmm.means()(g, d)),
                                static_cast<double>(gmm.variances()(g, d)));
      total += std::exp(likelihood);
      if (g == gaussian) mine = std::exp(likelihood);
    }
    return mine / total;
  }
};

WeighedSpeech RandomWeights(uint64_t seed, double scale) {
  Rng rng(seed);
  WeighedSpeech speech;
  speech.weights.resize(3);
  for (int t = 0; t < kEbwFrames; ++t) {
    for (auto& of_pdf : speech.weights) {
      if (rng.Below(2) == 0) of_pdf.push_back({t, scale * rng.Uniform()});
    }
  }
  return speech;
}

int32_t PdfOfGaussian(const GmmSet& gmm, int g) {
  int32_t pdf = 0;
  while (gmm.FirstGaussian(pdf + 1) <= g) ++pdf;
  return pdf;
}

TEST(GmmStats, WeighsFrames) {
  const GmmSet gmm = EbwMixtures();
  const WeighedSpeech speech = RandomWeights(7, 1.0);
  const GmmStats stats = speech.Stats(gmm);
  double frames = 0;
  for (const auto& of_pdf : speech.weights) {
    for (const auto& [frame, weight] : of_pdf) frames += weight;
  }
  EXPECT_NEAR(stats.num_frames(), frames, 1e-9);
  for (int g = 0; g < gmm.num_gaussians(); ++g) {
    const int32_t pdf = PdfOfGaussian(gmm, g);
    double occupancy = 0, first = 0, second = 0;
    for (const auto& [frame, weight] : speech.weights[static_cast<size_t>(pdf)]) {
      const double posterior = weight * speech.Posterior(gmm, pdf, g, frame);
      const auto x = static_cast<double>(speech.frames(frame, 1));
      occupancy += posterior;
      first += posterior * x;
      second += posterior * x * x;
    }
    EXPECT_NEAR(stats.Occupancy(g), occupancy, 1e-4) << g;
    EXPECT_NEAR(stats.sums()(g, 1), first, 1e-4) << g;
    EXPECT_NEAR(stats.sums()(g, kDim + 1), second, 1e-4) << g;
  }
}

TEST(GmmStats, OfWholeFramesAreThoseOfAlignments) {
  const GmmSet gmm = EbwMixtures();
  WeighedSpeech speech;
  speech.weights.resize(3);
  std::vector<int32_t> pdfs;
  for (int t = 0; t < kEbwFrames; ++t) {
    pdfs.push_back(t / 7 % 3);
    speech.weights[static_cast<size_t>(pdfs.back())].push_back({t, 1.0});
  }
  GmmStats aligned(gmm);
  aligned.Accumulate(gmm, speech.frames, FrameBlocks(speech.frames), pdfs);
  const GmmStats weighed = speech.Stats(gmm);
  EXPECT_EQ(aligned.num_frames(), weighed.num_frames());
  EXPECT_NEAR(aligned.log_likelihood(), weighed.log_likelihood(), 1e-9);
  for (int g = 0; g < gmm.num_gaussians(); ++g) {
    EXPECT_NEAR(aligned.Occupancy(g), weighed.Occupancy(g), 1e-12);
    for (int d = 0; d < 2 * kDim; ++d) EXPECT_NEAR(aligned.sums()(g, d), weighed.sums()(g, d), 1e-12);
  }
}

// New mean and variance of dimension `d`, straight from the formulas of the header.
struct Parameters {
  double count, mean, variance;
};

Parameters WithConstant(const GmmSet& gmm, const GmmStats& plus, const GmmStats& minus, int g, int d, double constant) {
  const auto mean = static_cast<double>(gmm.means()(g, d));
  const auto variance = static_cast<double>(gmm.variances()(g, d));
  Parameters p{};
  p.count = plus.Occupancy(g) - minus.Occupancy(g) + constant;
  p.mean = (plus.sums()(g, d) - minus.sums()(g, d) + constant * mean) / p.count;
  p.variance = (plus.sums()(g, kDim + d) - minus.sums()(g, kDim + d) + constant * (variance + mean * mean)) / p.count -
               p.mean * p.mean;
  return p;
}

// The least constant, to a thousandth, from which on everything stays positive: by trying from above.
double LeastByTrying(const GmmSet& gmm, const GmmStats& plus, const GmmStats& minus, int g) {
  const auto positive = [&](double constant) {
    for (int d = 0; d < kDim; ++d) {
      const Parameters p = WithConstant(gmm, plus, minus, g, d, constant);
      if (!(p.count > 0) || !(p.variance > 0)) return false;
    }
    return true;
  };
  double constant = 1e4;
  while (constant > 1e-6 && positive(constant / 1.001)) constant /= 1.001;
  return constant > 1e-5 ? constant : 0;
}

TEST(ExtendedBaumWelch, FollowsTheFormulas) {
  const GmmSet gmm = EbwMixtures();
  int slowed = 0;
  for (const double against : {0.3, 1.0, 4.0}) {
    const GmmStats plus = RandomWeights(1, 1.0).Stats(gmm), minus = RandomWeights(2, against).Stats(gmm);
    for (const double tau : {0.0, 5.0}) {
      EbwOptions options;
      options.tau = tau;
      options.e = 1.0;
      EbwReport report;
      const GmmSet updated = ExtendedBaumWelch(gmm, plus, minus, options, &report);
      EXPECT_EQ(report.updated, 6);
      slowed += report.slowed;
      for (int g = 0; g < gmm.num_gaussians(); ++g) {
        const double wanted = tau + minus.Occupancy(g), needed = 2 * LeastByTrying(gmm, plus, minus, g);
        for (int d = 0; d < kDim; ++d) {
          const Parameters p = WithConstant(gmm, plus, minus, g, d, std::max(wanted, needed));
          // Where trying finds the constant, it is known to a thousandth only.
          const double tolerance = needed > wanted ? 0.02 : 1e-5;
          EXPECT_NEAR(updated.means()(g, d), p.mean, tolerance * (1 + std::abs(p.mean))) << g;
          EXPECT_NEAR(updated.variances()(g, d), p.variance, tolerance * (1 + p.variance)) << g;
        }
      }
    }
  }
  EXPECT_GT(slowed, 0);
}

TEST(ExtendedBaumWelch, WeightsAreTheBestOfAll) {
  const GmmSet gmm = EbwMixtures();
  const GmmStats plus = RandomWeights(1, 1.0).Stats(gmm), minus = RandomWeights(2, 1.5).Stats(gmm);
  EbwOptions options;
  options.weight_tau = 2;
  EbwReport report;
  const GmmSet updated = ExtendedBaumWelch(gmm, plus, minus, options, &report);
  EXPECT_EQ(report.updated_weights, 2);
  for (const int32_t pdf : {0, 2}) {
    const auto objective = [&](const std::vector<double>& weights) {
      double sum = 0;
      for (size_t k = 0; k < weights.size(); ++k) {
        const int g = gmm.FirstGaussian(pdf) + static_cast<int>(k);
        const auto old = static_cast<double>(gmm.weights()[static_cast<size_t>(g)]);
        sum += (plus.Occupancy(g) + options.weight_tau * old) * std::log(weights[k]) -
               minus.Occupancy(g) * weights[k] / old;
      }
      return sum;
    };
    std::vector<double> found;
    double total = 0;
    for (int g = gmm.FirstGaussian(pdf); g < gmm.FirstGaussian(pdf) + gmm.NumGaussians(pdf); ++g) {
      found.push_back(static_cast<double>(updated.weights()[static_cast<size_t>(g)]));
      total += found.back();
    }
    EXPECT_NEAR(total, 1, 1e-6);
    const double best = objective(found);
    for (size_t from = 0; from < found.size(); ++from) {
      for (size_t to = 0; to < found.size(); ++to) {
        if (from == to) continue;
        std::vector<double> moved = found;
        moved[from] -= 0.01;
        moved[to] += 0.01;
        EXPECT_GT(best, objective(moved)) << from << " → " << to;
      }
    }
  }
}

TEST(ExtendedBaumWelch, LeavesWhatItKnowsNothingOf) {
  const GmmSet gmm = EbwMixtures();
  EbwReport report;
  EXPECT_TRUE(ExtendedBaumWelch(gmm, GmmStats(gmm), GmmStats(gmm), {}, &report) == gmm);
  EXPECT_EQ(report.updated, 0);
  EXPECT_EQ(report.updated_weights, 0);
}

// Nothing against it, and nothing to hold on to: what maximum likelihood gives.
TEST(ExtendedBaumWelch, IsMaximumLikelihoodWithoutADenominator) {
  const GmmSet gmm = EbwMixtures();
  const GmmStats plus = RandomWeights(1, 1.0).Stats(gmm);
  EbwOptions options;
  options.tau = 0;
  options.weight_tau = 0;
  EbwReport report;
  const GmmSet updated = ExtendedBaumWelch(gmm, plus, GmmStats(gmm), options, &report);
  GmmUpdateOptions likelihood;
  likelihood.min_occupancy = 0;
  const GmmSet wanted = Reestimate(gmm, plus, likelihood);
  for (int g = 0; g < gmm.num_gaussians(); ++g) {
    EXPECT_NEAR(updated.weights()[static_cast<size_t>(g)], wanted.weights()[static_cast<size_t>(g)], 1e-5);
    for (int d = 0; d < kDim; ++d) {
      EXPECT_NEAR(updated.means()(g, d), wanted.means()(g, d), 1e-4);
      EXPECT_NEAR(updated.variances()(g, d), wanted.variances()(g, d), 1e-4);
    }
  }
}

TEST(ExtendedBaumWelch, SurvivesMixturesThatOnlyLose) {
  const GmmSet gmm = EbwMixtures();
  const GmmStats minus = RandomWeights(2, 50).Stats(gmm);
  for (const double e : {0.0, 2.0}) {
    EbwOptions options;
    options.e = e;
    options.tau = 0;
    options.weight_tau = 0;
    EbwReport report;
    const GmmSet updated = ExtendedBaumWelch(gmm, GmmStats(gmm), minus, options, &report);  // checks its values itself
    double sum = 0;
    for (const float weight : updated.weights()) sum += static_cast<double>(weight);
    EXPECT_NEAR(sum, 3, 1e-5);
  }
}

}  // namespace
}  // namespace antiphon::hmm
