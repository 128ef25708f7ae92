// i-vectors: the closed form in one dimension, EM on speakers drawn from a known model, and what is refused.
#include "hmm/ivector.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "math/safetensors.h"
#include "temporary_folder.h"

namespace antiphon::hmm {
namespace {

GmmSet OneGaussian(float mean, float variance) {
  Matrix means(1, 1), variances(1, 1);
  means(0, 0) = mean;
  variances(0, 0) = variance;
  return GmmSet({0, 1}, {1.0F}, std::move(means), std::move(variances));
}

SpeakerReader Speakers(const std::vector<IvectorStats>& stats) {
  return {stats.size(), [&stats](size_t i) { return stats[i]; }};
}

TEST(Ivector, IsTheClosedFormInOneDimension) {
  constexpr double kMean = 1, kVariance = 4, kT = 3;
  IvectorExtractor extractor(OneGaussian(kMean, kVariance), 1, 1);
  DoubleMatrix t(1, 1);
  t(0, 0) = kT;
  extractor.SetVariability(t);
  Matrix frames(3, 1);
  frames(0, 0) = 2, frames(1, 0) = 4.5, frames(2, 0) = 3;
  const auto found = extractor.Infer(extractor.Collect(frames));

  // ∫ N(w; 0, 1) Π N(x; m + T w, σ²) / N(x; m, σ²) dw, and the mean of w under it, by sums.
  double total = 0, first = 0, second = 0;
  constexpr double kStep = 1e-4;
  for (double w = -8; w < 8; w += kStep) {
    double log_p = -0.5 * w * w - 0.5 * std::log(2 * M_PI);
    for (int i = 0; i < 3; ++i) {
      const double x = static_cast<double>(frames(i, 0));
      log_p += (std::pow(x - kMean, 2) - std::pow(x - kMean - kT * w, 2)) / (2 * kVariance);
    }
    total += std::exp(log_p) * kStep;
    first += w * std::exp(log_p) * kStep;
    second += w * w * std::exp(log_p) * kStep;
  }
  EXPECT_NEAR(found.mean[0], first / total, 1e-5);
  EXPECT_NEAR(found.covariance(0, 0), second / total - std::pow(first / total, 2), 1e-5);
  EXPECT_NEAR(found.gain, std::log(total), 1e-5);
  // Half the weight per frame is half the speech.
  Matrix half(0, 1);
  EXPECT_EQ(extractor.Infer(extractor.Collect(half)).mean[0], 0);
  EXPECT_LT(std::abs(extractor.Infer(extractor.Collect(frames), 0.1).mean[0]), std::abs(found.mean[0]));
}

TEST(Ivector, WithAPriorOffsetGainsWhatTheIntegralSays) {
  constexpr double kMean = 1, kVariance = 4, kT = 0.5, kOffset = 6;
  IvectorExtractor extractor(OneGaussian(kMean, kVariance), 1, 1, {}, {}, kOffset);
  DoubleMatrix t(1, 1);
  t(0, 0) = kT;
  extractor.SetVariability(t);
  Matrix frames(3, 1);
  frames(0, 0) = 2, frames(1, 0) = 4.5, frames(2, 0) = 3;
  const auto found = extractor.Infer(extractor.Collect(frames));
  double total = 0, first = 0;
  constexpr double kStep = 1e-4;
  for (double w = kOffset - 9; w < kOffset + 9; w += kStep) {
    double log_p = -0.5 * (w - kOffset) * (w - kOffset) - 0.5 * std::log(2 * M_PI);
    for (int i = 0; i < 3; ++i) {
      const double x = static_cast<double>(frames(i, 0));
      log_p += (std::pow(x - kMean, 2) - std::pow(x - kT * w, 2)) / (2 * kVariance);
    }
    total += std::exp(log_p) * kStep;
    first += w * std::exp(log_p) * kStep;
  }
  EXPECT_NEAR(found.mean[0], first / total - kOffset, 1e-5);
  EXPECT_NEAR(found.gain, std::log(total), 1e-5);
}

// Speakers whose means lie on a line through those of two Gaussians.
class DrawnSpeakers : public ::testing::Test {
 protected:
  static constexpr int kDim = 3, kSpeakers = 60, kFrames = 400;

  DrawnSpeakers() {
    Rng rng(7);
    for (int s = 0; s < kSpeakers; ++s) {
      place.push_back(rng.Normal());
      for (int part = 0; part < 2; ++part) {
        Matrix x(kFrames, kDim);
        for (int n = 0; n < kFrames; ++n) {
          const bool second = n % 2 == 1;
          for (int d = 0; d < kDim; ++d) {
            const double along = second ? kSecond[d] : kFirst[d];
            x(n, d) = static_cast<float>((second ? 5 : -5) + along * place.back() + rng.Normal());
          }
        }
        utterances.push_back(std::move(x));
      }
    }
  }
  FrameReader Reader() const {
    return {utterances.size(), [this](size_t i) { return utterances[i]; }};
  }
  // Of the first halves, or the second ones.
  std::vector<IvectorStats> Stats(const IvectorExtractor& extractor, size_t part) const {
    std::vector<IvectorStats> stats;
    for (size_t i = part; i < utterances.size(); i += 2) stats.push_back(extractor.Collect(utterances[i]));
    return stats;
  }

  static constexpr double kFirst[kDim] = {1, 0, -1}, kSecond[kDim] = {0.5, 1, 0};
  std::vector<double> place;
  std::vector<Matrix> utterances;  // two per speaker
};

TEST_F(DrawnSpeakers, BackgroundFindsTheGaussians) {
  const GmmSet gmm = TrainBackground(Reader(), {.gaussians = 2, .iterations = 8}, 1);
  ASSERT_EQ(gmm.num_gaussians(), 2);
  const int low = gmm.means()(0, 0) < gmm.means()(1, 0) ? 0 : 1;
  EXPECT_NEAR(gmm.means()(low, 1), -5, 0.2);
  EXPECT_NEAR(gmm.means()(1 - low, 2), 5, 0.2);
  EXPECT_NEAR(gmm.weights()[0], 0.5, 0.01);
}

TEST_F(DrawnSpeakers, EmRaisesTheLikelihoodAndFindsWhereSpeakersLie) {
  IvectorExtractor extractor(TrainBackground(Reader(), {.gaussians = 2, .iterations = 8}, 1), 1, 3);
  const std::vector<IvectorStats> stats = Stats(extractor, 0);
  double before = extractor.Improve(Speakers(stats));
  for (int i = 0; i < 15; ++i) {
    const double now = extractor.Improve(Speakers(stats));
    EXPECT_GE(now, before - 1e-6 * std::abs(before)) << "iteration " << i;
    before = now;
  }
  const int low = extractor.background().means()(0, 0) < extractor.background().means()(1, 0) ? 0 : 1;
  const double sign = extractor.variability()(low * kDim, 0) > 0 ? 1 : -1;
  for (int d = 0; d < kDim; ++d) {
    EXPECT_NEAR(sign * extractor.variability()(low * kDim + d, 0), kFirst[d], 0.25) << d;
    EXPECT_NEAR(sign * extractor.variability()((1 - low) * kDim + d, 0), kSecond[d], 0.25) << d;
  }
}

// The offset learns the Gaussians' means too, from a background that lies beside them, and brings w to unit variance.
TEST_F(DrawnSpeakers, EmWithAPriorOffsetRaisesTheLikelihoodAndFindsTheMeans) {
  const GmmSet found = TrainBackground(Reader(), {.gaussians = 2, .iterations = 8}, 1);
  Matrix beside = found.means();
  for (int64_t i = 0; i < beside.size(); ++i) beside.data()[i] += 0.3F;
  const GmmSet background({0, 2}, {0.5F, 0.5F}, std::move(beside), found.variances());
  IvectorExtractor extractor(background, 2, 3, {}, {}, 100);
  const std::vector<IvectorStats> stats = Stats(extractor, 0);
  double before = extractor.Improve(Speakers(stats));
  for (int i = 0; i < 15; ++i) {
    const double now = extractor.Improve(Speakers(stats));
    EXPECT_GE(now, before - 1e-6 * std::abs(before)) << "iteration " << i;
    before = now;
  }
  double sum = 0, square = 0;
  for (const IvectorStats& of_speaker : stats) {
    const auto w = extractor.Infer(of_speaker).mean;
    sum += w[0];
    square += w[0] * w[0] + w[1] * w[1];
  }
  EXPECT_NEAR(sum / kSpeakers, 0, 0.05);
  EXPECT_NEAR(square / kSpeakers, 1, 0.2);  // speakers differ in one number
  for (int c = 0; c < 2; ++c) {
    for (int d = 0; d < kDim; ++d) {
      const double mean = extractor.prior_offset() * extractor.variability()(c * kDim + d, 0);
      EXPECT_NEAR(mean, static_cast<double>(found.means()(c, d)), 0.02) << c << d;
    }
  }
}

TEST_F(DrawnSpeakers, TrainingHasTheSameBitsOnAnyNumberOfThreads) {
  const auto trained = [&](int threads) {
    const GmmSet background = TrainBackground(Reader(), {.gaussians = 2, .iterations = 2}, 1, threads);
    IvectorExtractor extractor(background, 2, 3, {}, {}, 100);
    const SpeakerReader speakers{utterances.size(), [&](size_t i) { return extractor.Collect(utterances[i]); }};
    for (int i = 0; i < 2; ++i) extractor.Improve(speakers, 0.1, threads);
    return extractor;
  };
  const IvectorExtractor one = trained(1), three = trained(3);
  EXPECT_EQ(one.background(), three.background());
  EXPECT_EQ(one.prior_offset(), three.prior_offset());
  for (int64_t i = 0; i < one.variability().size(); ++i) {
    ASSERT_EQ(one.variability().data()[i], three.variability().data()[i]) << i;
  }
}

TEST_F(DrawnSpeakers, VectorsTellSpeakersApartOnOtherSpeechOfTheirs) {
  IvectorExtractor extractor(TrainBackground(Reader(), {.gaussians = 2, .iterations = 8}, 1), 2, 3);
  const std::vector<IvectorStats> known = Stats(extractor, 0), fresh = Stats(extractor, 1);
  for (int i = 0; i < 10; ++i) extractor.Improve(Speakers(known));
  double within = 0, between = 0;
  const auto away = [&](const IvectorStats& a, const IvectorStats& b) {
    const auto u = extractor.Infer(a).mean, v = extractor.Infer(b).mean;
    return std::hypot(u[0] - v[0], u[1] - v[1]);
  };
  for (size_t s = 0; s < kSpeakers; ++s) {
    within += away(known[s], fresh[s]);
    between += away(known[s], fresh[(s + 7) % kSpeakers]);
  }
  EXPECT_LT(within, 0.2 * between);
}

TEST_F(DrawnSpeakers, IsTheSameFromItsFile) {
  const testing::TemporaryFolder folder;
  IvectorExtractor extractor(TrainBackground(Reader(), {.gaussians = 2, .iterations = 2}, 1), 2, 3);
  extractor.Save(folder / "extractor.safetensors");
  const IvectorExtractor again = IvectorExtractor::Load(folder / "extractor.safetensors");
  EXPECT_EQ(extractor.Infer(extractor.Collect(utterances[0])).mean, again.Infer(again.Collect(utterances[0])).mean);
  EXPECT_THROW(again.Collect(Matrix(5, kDim + 1)), ShapeError);
  EXPECT_EQ(again.Collect(Matrix()).count(), 0);
}

TEST(Ivector, RefusesOtherFilesAndNoSpeech) {
  const testing::TemporaryFolder folder;
  SafetensorsWriter writer;
  writer.SetMetadata("format", "antiphon-profile");
  writer.Write(folder / "profile.safetensors");
  EXPECT_THROW(IvectorExtractor::Load(folder / "profile.safetensors"), InputError);
  EXPECT_THROW(TrainBackground({}, {}, 1), InputError);
}

}  // namespace
}  // namespace antiphon::hmm
