// i-vectors of speech that is still coming: closed forms, the offline vector, and bits that do not depend on the cut.
#include "hmm/online_ivector.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/random.h"
#include "small_gmm.h"

namespace antiphon::hmm {
namespace {

using ::antiphon::testing::RandomMatrix;

GmmSet Gaussians(int count, int dim, uint64_t seed) {
  Matrix means = RandomMatrix(count, dim, seed), variances(count, dim);
  for (int64_t i = 0; i < variances.size(); ++i) variances.data()[i] = 0.5F + 0.1F * static_cast<float>(i % 7);
  std::vector<float> weights(static_cast<size_t>(count), 1.0F / static_cast<float>(count));
  return GmmSet({0, count}, std::move(weights), std::move(means), std::move(variances));
}

FeatureTransform Spliced(int dim, int out, uint64_t seed) { return {3, 3, RandomMatrix(out, 7 * dim + 1, seed)}; }

std::shared_ptr<const IvectorExtractor> SmallExtractor(const IvectorOptions& options, double prior_offset = 0) {
  constexpr int kDim = 2, kOut = 4, kNumbers = 3;
  auto extractor = std::make_shared<IvectorExtractor>(Gaussians(8, kOut, 1), kNumbers, 2, options,
                                                      Spliced(kDim, kOut, 3), prior_offset);
  DoubleMatrix t(8 * kOut, kNumbers);
  Rng rng(4);
  for (int64_t i = 0; i < t.size(); ++i) t.data()[i] = 0.3 * rng.Normal();
  extractor->SetVariability(std::move(t));
  return extractor;
}

Matrix VectorsOf(const Matrix& with, int numbers) {
  return Matrix(ConstMatrixView(with).Cols(with.cols() - numbers, numbers));
}

// With one Gaussian: w = (ρ + n s T²/σ²)⁻¹ · (ρ p + n s T (x̄ − m)/σ²) − p, ρ the weight of the prior.
double ClosedForm(double n, double mean_x, double scale, double max_count, double offset) {
  constexpr double kMean = 1, kVariance = 4, kT = 3;
  const double base = offset > 0 ? 0 : kMean;
  const double prior = max_count > 0 ? std::max(1.0, n * scale / max_count) : 1.0;
  const double precision = prior + n * scale * kT * kT / kVariance;
  return (prior * offset + n * scale * kT * (mean_x - base) / kVariance) / precision - offset;
}

TEST(OnlineIvector, OfOneGaussianIsTheClosedForm) {
  for (const double offset : {0.0, 5.0}) {
    for (const double max_count : {0.0, 3.0}) {
      Matrix means(1, 1), variances(1, 1);
      means(0, 0) = 1, variances(0, 0) = 4;
      IvectorOptions options;
      options.posterior_scale = 0.5, options.max_count = max_count, options.period = 2, options.vector_scale = 0.25;
      auto extractor = std::make_shared<IvectorExtractor>(
          GmmSet({0, 1}, {1.0F}, std::move(means), std::move(variances)), 1, 1, options, FeatureTransform(), offset);
      DoubleMatrix t(1, 1);
      t(0, 0) = 3;
      extractor->SetVariability(std::move(t));
      const Matrix frames = RandomMatrix(40, 1, 7);
      const Matrix out = OnlineIvectors(extractor).Accept(frames, true);
      ASSERT_EQ(out.rows(), 40);
      double sum = 0;
      for (int n = 0; n < 40; ++n) {
        sum += static_cast<double>(frames(n, 0));
        EXPECT_EQ(out(n, 0), frames(n, 0));
        if (n % 2 == 1) {
          EXPECT_EQ(out(n, 1), out(n - 1, 1));  // the same period
          continue;
        }
        const double expected = 0.25 * ClosedForm(n + 1, sum / (n + 1), 0.5, max_count, offset);
        EXPECT_NEAR(static_cast<double>(out(n, 1)), expected, 2e-6) << n << " " << max_count << " " << offset;
      }
    }
  }
}

TEST(OnlineIvector, AtTheLastFrameIsTheOfflineVector) {
  for (const double offset : {0.0, 20.0}) {
    IvectorOptions options;
    options.period = 1;
    options.max_count = 5;  // reached after 50 frames
    const auto extractor = SmallExtractor(options, offset);
    for (const int frames : {1, 3, 30, 200}) {
      const Matrix x = RandomMatrix(frames, 2, 5);
      const Matrix out = VectorsOf(OnlineIvectors(extractor).Accept(x, true), 3);
      const std::vector<float> offline = extractor->Vector(extractor->Collect(x));
      for (int d = 0; d < 3; ++d) {
        const float expected = offline[static_cast<size_t>(d)];
        EXPECT_NEAR(out(frames - 1, d), expected, 1e-6F * std::max(1.0F, std::abs(expected))) << frames;
      }
    }
  }
}

// Speech of one kind: later estimates come ever closer to what all of it says.
TEST(OnlineIvector, ConvergesToTheVectorOfAllSpeech) {
  IvectorOptions options;
  options.max_count = 0;
  const auto extractor = SmallExtractor(options);
  const Matrix x = RandomMatrix(4000, 2, 6);
  const Matrix out = VectorsOf(OnlineIvectors(extractor).Accept(x, true), 3);
  const std::vector<float> offline = extractor->Vector(extractor->Collect(x));
  const auto away = [&](int64_t frame) {
    double sum = 0;
    for (int d = 0; d < 3; ++d) sum += std::pow(out(frame, d) - offline[static_cast<size_t>(d)], 2);
    return std::sqrt(sum);
  };
  EXPECT_LT(away(3999), 0.02);
  EXPECT_LT(away(3999), 0.1 * away(100));
}

TEST(OnlineIvector, BitsDoNotDependOnHowTheSpeechIsCut) {
  const auto extractor = SmallExtractor({}, 10);
  const Matrix x = RandomMatrix(333, 2, 8);
  OnlineIvectors at_once(extractor);
  const Matrix whole = at_once.Accept(x, true);
  ASSERT_EQ(whole.rows(), 333);
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    OnlineIvectors in_pieces(extractor);
    Rng rng(seed);
    int64_t rows = 0;
    for (int64_t at = 0; at < x.rows();) {
      const auto most = static_cast<uint64_t>(seed % 2 == 0 ? 5 : 60);
      const int64_t count = std::min<int64_t>(x.rows() - at, static_cast<int64_t>(rng.Below(most)));
      const Matrix more = in_pieces.Accept(x.view().Rows(at, count), at + count == x.rows());
      for (int64_t r = 0; r < more.rows(); ++r, ++rows) {
        for (int64_t c = 0; c < more.cols(); ++c) ASSERT_EQ(more(r, c), whole(rows, c)) << rows << " " << c;
      }
      at += count;
    }
    EXPECT_EQ(rows, 333);
    EXPECT_EQ(in_pieces.state(), at_once.state());
  }
}

TEST(OnlineIvector, WaitsForTheContextOfItsTransformAtMost) {
  const auto extractor = SmallExtractor({});
  OnlineIvectors vectors(extractor);
  const Matrix x = RandomMatrix(60, 2, 8);
  for (int64_t t = 0, out = 0; t < x.rows(); ++t) {
    out += vectors.Accept(x.view().Rows(t, 1), false).rows();
    // The first frame of each period waits for three more; the others are there at once.
    EXPECT_EQ(out, t % 10 < 3 ? t - t % 10 : t + 1) << t;
  }
}

TEST(OnlineIvector, GoesOnWhereTheSpeakersEarlierSpeechEnded) {
  IvectorOptions options;
  options.period = 1;
  const auto extractor = SmallExtractor(options);
  const Matrix first = RandomMatrix(50, 2, 9), second = RandomMatrix(40, 2, 10);
  OnlineIvectors before(extractor);
  before.Accept(first, true);
  OnlineIvectors after(extractor, before.state());
  const Matrix out = VectorsOf(after.Accept(second, true), 3);
  IvectorStats both = extractor->Collect(first);
  both.Add(extractor->Collect(second));
  const std::vector<float> expected = extractor->Vector(both);
  const Matrix alone = VectorsOf(OnlineIvectors(extractor).Accept(second, true), 3);
  for (int d = 0; d < 3; ++d) {
    EXPECT_NEAR(out(39, d), expected[static_cast<size_t>(d)], 1e-5);
    EXPECT_NE(out(0, d), alone(0, d));
  }
}

TEST(OnlineIvector, RemembersSoManyFramesAtMost) {
  IvectorOptions options;
  options.memory_frames = 20;
  const auto extractor = SmallExtractor(options);
  OnlineIvectors before(extractor);
  before.Accept(RandomMatrix(50, 2, 9), true);
  EXPECT_NEAR(before.state().count, 5.0, 1e-9);
  const OnlineIvectors after(extractor, before.state());
  EXPECT_NEAR(after.state().count, 2.0, 1e-9);
  EXPECT_NEAR(after.state().linear[1], 0.4 * before.state().linear[1], 1e-9);
  EXPECT_NEAR(after.state().quadratic[5], 0.4 * before.state().quadratic[5], 1e-9);
}

TEST(OnlineIvector, OfNoSpeechIsNothing) {
  const auto extractor = SmallExtractor({}, 10);
  OnlineIvectors vectors(extractor);
  EXPECT_EQ(vectors.Accept(Matrix(0, 2), true).rows(), 0);
  EXPECT_EQ(vectors.state().count, 0);
  for (const float v : vectors.Vector()) EXPECT_NEAR(v, 0, 1e-6);
}

TEST(OnlineIvector, RefusesWhatDoesNotFit) {
  const auto extractor = SmallExtractor({});
  OnlineIvectors vectors(extractor);
  EXPECT_THROW(vectors.Accept(Matrix(3, 3), false), ShapeError);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Matrix x = RandomMatrix(12, 2, 3);
    x(5, 1) = bad;
    EXPECT_THROW(OnlineIvectors(extractor).Accept(x, true), InputError);
  }
  OnlineIvectorState other;
  other.linear.resize(4), other.quadratic.resize(10);
  EXPECT_THROW(OnlineIvectors(extractor, other), ShapeError);
}

// Shares that are left out leave the others with all of the frame.
TEST(OnlineIvector, SharesOutEachFrameWhole) {
  IvectorOptions options;
  options.gaussians_per_frame = 3;
  options.min_posterior = 0.1;
  const IvectorExtractor extractor(Gaussians(8, 4, 1), 2, 1, options);
  int64_t frames = 0;
  const Matrix x = RandomMatrix(50, 4, 11);
  extractor.Shares(x, [&](int64_t t, std::span<const GaussianShare> shares) {
    EXPECT_EQ(t, frames++);
    ASSERT_GE(shares.size(), 1U);
    ASSERT_LE(shares.size(), 3U);
    double total = 0;
    for (size_t i = 0; i < shares.size(); ++i) {
      total += shares[i].posterior;
      EXPECT_LE(shares[i].posterior, i > 0 ? shares[i - 1].posterior : 1.0);
      EXPECT_GE(shares[i].posterior, 0.1);
    }
    EXPECT_NEAR(total, 1.0, 1e-12);
  });
  EXPECT_EQ(frames, 50);
}

}  // namespace
}  // namespace antiphon::hmm
