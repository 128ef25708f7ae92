#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "hmm/fmllr.h"
#include "hmm/lda.h"
#include "hmm/mllt.h"
#include "math/linalg.h"

namespace antiphon::hmm {
namespace {

float Gauss(Rng& rng) { return static_cast<float>(rng.Normal()); }

// Frames of two classes that differ along (1, 2, 0) only, in correlated noise.
void MakeTwoClasses(int64_t count, Matrix& frames, std::vector<int32_t>& classes) {
  Rng rng(1);
  frames = Matrix(count, 3);
  classes.clear();
  for (int64_t n = 0; n < count; ++n) {
    const float a = Gauss(rng);
    const float b = Gauss(rng);
    const float c = Gauss(rng);
    const float shift = n % 2 == 0 ? 1.5f : -1.5f;
    frames(n, 0) = a + shift + 5;
    frames(n, 1) = 0.5f * a + b + 2 * shift;
    frames(n, 2) = a + b + 0.3f * c;
    classes.push_back(static_cast<int32_t>(n % 2));
  }
}

TEST(Lda, WhitensWithinClassesAndRanksSeparation) {
  Matrix frames;
  std::vector<int32_t> classes;
  MakeTwoClasses(4000, frames, classes);
  LdaEstimator lda(3, 2);
  lda.Accumulate(frames, classes);
  const auto [transform, separation] = lda.Estimate(3, true);
  EXPECT_GT(separation[0], 1.0);
  EXPECT_NEAR(separation[1], 0, 1e-6);

  Matrix projected(frames.rows(), 3);
  ApplyAffine(transform, frames, projected);
  DoubleMatrix covariance(3, 3);
  double class_mean[2][3] = {};
  for (int64_t n = 0; n < frames.rows(); ++n) {
    for (int64_t i = 0; i < 3; ++i) class_mean[n % 2][i] += projected(n, i) / (0.5 * 4000);
  }
  for (int64_t n = 0; n < frames.rows(); ++n) {
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 3; ++j) {
        covariance(i, j) +=
            (projected(n, i) - class_mean[n % 2][i]) * (projected(n, j) - class_mean[n % 2][j]) / 4000.0;
      }
    }
  }
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(class_mean[0][i] + class_mean[1][i], 0, 1e-3);  // centred
    for (int64_t j = 0; j < 3; ++j) EXPECT_NEAR(covariance(i, j), i == j ? 1 : 0, 2e-3);
  }
  EXPECT_NEAR(std::pow(class_mean[0][0] - class_mean[1][0], 2) / 4, separation[0], 1e-2);
}

TEST(Lda, PartsAddUpToTheWhole) {
  Matrix frames;
  std::vector<int32_t> classes;
  MakeTwoClasses(1000, frames, classes);
  LdaEstimator whole(3, 2);
  whole.Accumulate(frames, classes);
  LdaEstimator parts(3, 2);
  for (int64_t first : {0, 400}) {
    const int64_t count = first == 0 ? 400 : 600;
    LdaEstimator part(3, 2);
    part.Accumulate(frames.view().Rows(first, count),
                    std::span(classes).subspan(static_cast<size_t>(first), static_cast<size_t>(count)));
    parts.Add(part);
  }
  // One row: two classes separate along one direction only, further rows may turn freely.
  const Matrix a = whole.Estimate(1, true).transform;
  const Matrix b = parts.Estimate(1, true).transform;
  for (int64_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a.data()[i], b.data()[i], 1e-4);
  EXPECT_THROW(LdaEstimator(3, 2).Estimate(2, true), InputError);
}

TEST(Mllt, UndoesAMixingOfIndependentDimensions) {
  // Independent dimensions of different variance per Gaussian, mixed by a fixed matrix: M must undo the mixing.
  const float mix[3][3] = {{1, 0.5, 0}, {0.2f, 1, 0.3f}, {0, -0.4f, 1}};
  const float deviations[2][3] = {{1, 3, 0.5}, {2, 0.7f, 1.5}};
  Rng rng(2);
  MlltEstimator mllt(3, 2);
  Matrix variance(2, 3);
  std::vector<std::vector<float>> data[2];
  for (int g = 0; g < 2; ++g) {
    for (int n = 0; n < 5000; ++n) {
      float s[3];
      for (int i = 0; i < 3; ++i) s[i] = deviations[g][i] * Gauss(rng);
      std::vector<float> x(3, 0.0f);
      for (int i = 0; i < 3; ++i) {
        for (int j = 0; j < 3; ++j) x[static_cast<size_t>(i)] += mix[i][j] * s[j];
        variance(g, i) += x[static_cast<size_t>(i)] * x[static_cast<size_t>(i)] / 5000;
      }
      data[g].push_back(x);
      mllt.Accumulate(g, x, 1.0f);
    }
  }
  // Alternate as training does: transform, then variances in the new space.
  Matrix total(3, 3);
  for (int i = 0; i < 3; ++i) total(i, i) = 1;
  double first_improvement = 0;
  for (int round = 0; round < 30; ++round) {
    MlltEstimator stats(3, 2);
    Matrix inverse(2, 3);
    for (int g = 0; g < 2; ++g) {
      std::vector<double> v(3, 0.0);
      for (const auto& x : data[g]) {
        std::vector<float> y(3, 0.0f);
        for (int i = 0; i < 3; ++i) {
          for (int j = 0; j < 3; ++j) y[static_cast<size_t>(i)] += total(i, j) * x[static_cast<size_t>(j)];
          v[static_cast<size_t>(i)] += y[static_cast<size_t>(i)] * y[static_cast<size_t>(i)] / 5000;
        }
        stats.Accumulate(g, y, 1.0f);
      }
      for (int i = 0; i < 3; ++i) inverse(g, i) = static_cast<float>(1 / v[static_cast<size_t>(i)]);
    }
    const auto result = stats.Estimate(inverse);
    EXPECT_GE(result.improvement, -1e-6);
    if (round == 0) first_improvement = result.improvement;
    total = ToFloat(Product(ToDouble(result.transform), ToDouble(total)));
  }
  EXPECT_GT(first_improvement, 0.01);
  // M·mix must be diagonal up to a permutation; here order is kept.
  for (int i = 0; i < 3; ++i) {
    double product[3] = {};
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 3; ++k) product[j] += total(i, k) * mix[k][j];
    }
    for (int j = 0; j < 3; ++j) {
      if (j == i) continue;
      EXPECT_LT(std::abs(product[j] / product[i]), 0.06) << i << " " << j;
    }
  }
  EXPECT_THROW(MlltEstimator(3, 2).Estimate(Matrix(2, 3)), InputError);
}

TEST(Fmllr, RecoversAKnownTransform) {
  // Frames of four Gaussians, distorted by y = B x + c; the estimate must undo it.
  const float b_matrix[2][2] = {{1.3f, 0.4f}, {-0.2f, 0.8f}};
  const float c_vector[2] = {0.7f, -1.1f};
  const float means[4][2] = {{3, 3}, {-3, 2}, {2, -4}, {-1, -2}};
  Rng rng(3);
  const int64_t count = 20000;
  Matrix frames(count, 2);
  Matrix precision(count, 2);
  Matrix weighted(count, 2);
  for (int64_t n = 0; n < count; ++n) {
    const float x0 = means[n % 4][0] + Gauss(rng);
    const float x1 = means[n % 4][1] + 0.5f * Gauss(rng);
    frames(n, 0) = b_matrix[0][0] * x0 + b_matrix[0][1] * x1 + c_vector[0];
    frames(n, 1) = b_matrix[1][0] * x0 + b_matrix[1][1] * x1 + c_vector[1];
    precision(n, 0) = 1;
    precision(n, 1) = 4;
    for (int d = 0; d < 2; ++d) weighted(n, d) = precision(n, d) * means[n % 4][d];
  }
  FmllrEstimator halves(2);
  FmllrEstimator second(2);
  halves.Accumulate(frames.view().Rows(0, 7000), precision.view().Rows(0, 7000), weighted.view().Rows(0, 7000), 7000);
  second.Accumulate(frames.view().Rows(7000, 13000), precision.view().Rows(7000, 13000),
                    weighted.view().Rows(7000, 13000), 13000);
  halves.Add(second);
  const auto result = halves.Estimate();
  ASSERT_TRUE(result.estimated);
  EXPECT_GT(result.improvement, 0.1);
  Matrix distortion(2, 3);
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) distortion(i, j) = b_matrix[i][j];
    distortion(i, 2) = c_vector[i];
  }
  const Matrix both = ComposeAffine(result.transform, distortion);
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) EXPECT_NEAR(both(i, j), i == j ? 1 : 0, 0.05) << i << " " << j;
  }
}

// The statistics of Gaussians are those of very many frames drawn from them.
TEST(Fmllr, WhatGaussiansExpectIsWhatFramesOfThemGive) {
  constexpr int kDim = 2, kGaussians = 3;
  const float means[kGaussians][kDim] = {{3, 1}, {-2, 2}, {0, -4}};
  const float variances[kGaussians][kDim] = {{1, 0.25F}, {2, 1}, {0.5F, 4}};
  const std::vector<float> share = {0.5F, 0.2F, 0.3F};
  Matrix mean(kGaussians, kDim), variance(kGaussians, kDim);
  for (int m = 0; m < kGaussians; ++m) {
    for (int d = 0; d < kDim; ++d) {
      mean(m, d) = means[m][d];
      variance(m, d) = variances[m][d];
    }
  }
  FmllrEstimator expected(kDim), drawn(kDim);
  expected.AccumulateGaussians(mean, variance, share);
  Rng rng(4);
  constexpr int64_t kFrames = 400000;
  Matrix frames(kFrames, kDim), precision(kFrames, kDim), weighted(kFrames, kDim);
  for (int64_t n = 0; n < kFrames; ++n) {
    const int m = n % 10 < 5 ? 0 : (n % 10 < 7 ? 1 : 2);
    for (int d = 0; d < kDim; ++d) {
      frames(n, d) = means[m][d] + std::sqrt(variances[m][d]) * Gauss(rng);
      precision(n, d) = 1 / variances[m][d];
      weighted(n, d) = precision(n, d) * means[m][d];
    }
  }
  drawn.Accumulate(frames, precision, weighted, kFrames);
  const FmllrStatistics a = expected.Statistics(), b = drawn.Statistics();
  EXPECT_NEAR(a.posterior, 1, 1e-6);
  for (size_t i = 0; i < a.linear.size(); ++i) EXPECT_NEAR(a.linear[i], b.linear[i] / kFrames, 0.05) << i;
  for (size_t i = 0; i < a.quadratic.size(); ++i) EXPECT_NEAR(a.quadratic[i], b.quadratic[i] / kFrames, 0.2) << i;

  // They ask for no transform, and the more they count, the less does speech that asks for one.
  FmllrEstimator many(kDim);
  many.Add(expected, 1000);
  const auto none = many.Estimate();
  EXPECT_TRUE(none.estimated);
  for (int i = 0; i < kDim; ++i) {
    for (int j = 0; j <= kDim; ++j) EXPECT_NEAR(none.transform(i, j), i == j ? 1 : 0, 1e-5) << i << " " << j;
  }
  for (int64_t n = 0; n < kFrames; ++n) frames(n, 0) += 2;
  FmllrEstimator moved(kDim);
  moved.Accumulate(frames.view().Rows(0, 100), precision.view().Rows(0, 100), weighted.view().Rows(0, 100), 100);
  double last = -2.5;
  for (const double weight : {0.0, 20.0, 200.0, 20000.0}) {
    const auto result = moved.Estimate(100, {.statistics = &expected, .weight = weight});
    ASSERT_TRUE(result.estimated);
    EXPECT_GT(result.transform(0, kDim), last) << weight;
    last = result.transform(0, kDim);
  }
  EXPECT_NEAR(last, 0, 0.1);
  FmllrEstimator one(kDim);
  one.Accumulate(frames.view().Rows(0, 1), precision.view().Rows(0, 1), weighted.view().Rows(0, 1), 1);
  EXPECT_FALSE(one.Estimate(1).estimated) << "no more frames than dimensions";
  EXPECT_TRUE(one.Estimate(1, {.statistics = &expected, .weight = 0.5}).estimated);
  EXPECT_FALSE(moved.Estimate(101, {.statistics = &expected, .weight = 1000}).estimated) << "a prior is no speech";
}

TEST(Fmllr, KeepsTheIdentityWithoutEnoughSpeech) {
  FmllrEstimator estimator(3);
  const auto result = estimator.Estimate();
  EXPECT_FALSE(result.estimated);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 4; ++j) EXPECT_EQ(result.transform(i, j), i == j ? 1 : 0);
  }
}

}  // namespace
}  // namespace antiphon::hmm
