#include "decode/search/contrast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "decode/search/matrix_scores.h"
#include "math/matrix.h"

namespace antiphon::decode {
namespace {

Matrix RandomScores(int frames, int pdfs) {
  Rng rng(5);
  Matrix scores(frames, pdfs);
  for (int f = 0; f < frames; ++f) {
    for (int p = 0; p < pdfs; ++p) scores(f, p) = static_cast<float>((1 + p % 3) * rng.Normal());
  }
  return scores;
}

// By its definition, of frames from `begin` to before `end`.
double ContrastOf(const Matrix& scores, int begin, int end) {
  const auto at = [&](int f, int64_t p) {
    double mean = 0.0;
    for (int64_t q = 0; q < scores.cols(); ++q) mean += static_cast<double>(scores(f, q));
    return static_cast<double>(scores(f, p)) - mean / static_cast<double>(scores.cols());
  };
  double sum = 0.0, squares = 0.0;
  for (int64_t p = 0; p < scores.cols(); ++p) {
    double mean = 0.0, variance = 0.0;
    for (int f = begin; f < end; ++f) mean += at(f, p) / (end - begin);
    for (int f = begin; f < end; ++f) variance += std::pow(at(f, p) - mean, 2) / (end - begin);
    sum += variance;
    squares += variance * variance;
  }
  return std::sqrt(squares / sum);
}

double Measured(const Matrix& scores) {
  Contrast contrast;
  for (int f = 0; f < scores.rows(); ++f) contrast.Measure(f, scores.Row(f));
  return contrast.Value();
}

TEST(Contrast, IsOfHowStatesVaryOverTheFrames) {
  const Matrix scores = RandomScores(40, 33);
  EXPECT_NEAR(Measured(scores), ContrastOf(scores, 0, 40), 1e-6);
}

TEST(Contrast, OfOneStateThatRisesAndFallsIsItsDeviation) {
  Matrix scores(10, 1000);
  for (int f = 0; f < 10; ++f) scores(f, 17) = f % 2 == 0 ? 6.0F : 0.0F;
  EXPECT_NEAR(Measured(scores), 3.0, 0.01);
}

TEST(Contrast, IsNothingWhereNothingChanges) {
  Matrix scores(5, 20);
  for (int f = 0; f < 5; ++f) {
    for (int p = 0; p < 20; ++p) scores(f, p) = static_cast<float>(p * p);
  }
  EXPECT_NEAR(Measured(scores), 0.0, 1e-6);
}

TEST(Contrast, DoesNotDependOnAConstantPerFrame) {
  Matrix scores = RandomScores(20, 20);
  const double before = Measured(scores);
  for (int f = 0; f < 20; ++f) {
    for (float& score : scores.Row(f)) score += 10.0F * static_cast<float>(f - 2);
  }
  EXPECT_NEAR(Measured(scores), before, 1e-5);
}

// One more state that no path may use is none.
TEST(Contrast, LeavesOutStatesThatTrainingNeverSaw) {
  const Matrix scores = RandomScores(20, 20);
  Matrix more(20, 21);
  for (int f = 0; f < 20; ++f) {
    for (int p = 0; p < 20; ++p) more(f, p) = scores(f, p);
    more(f, 20) = kDisabledScore;
  }
  EXPECT_NEAR(Measured(more), Measured(scores), 1e-6);
}

// The search is ahead of a cut, and a short rest says little by itself.
TEST(Contrast, GoesOnBehindACut) {
  Matrix scores = RandomScores(12, 9);
  MatrixScores source(scores);
  Contrast contrast;
  MeasuredScores measured(source, contrast);
  for (int f = 0; f < 8; ++f) EXPECT_EQ(measured.DenseFrame(f).data(), source.DenseFrame(f).data());
  measured.DenseFrame(7);
  EXPECT_NEAR(contrast.Value(), ContrastOf(scores, 0, 8), 1e-6);
  contrast.CutBefore(5);
  for (int f = 2; f < 7; ++f) contrast.Measure(f, scores.Row(f + 5));
  EXPECT_NEAR(contrast.Value(), ContrastOf(scores, 0, 12), 1e-6);
  contrast.Clear();
  for (int f = 0; f < 3; ++f) contrast.Measure(f, scores.Row(f));
  EXPECT_NEAR(contrast.Value(), ContrastOf(scores, 0, 3), 1e-6);
}

TEST(Contrast, OfFewerThanTwoFramesIsNotKnown) {
  const Matrix scores = RandomScores(3, 12);
  Contrast contrast;
  EXPECT_TRUE(std::isnan(contrast.Value()));
  for (int f = 0; f < 3; ++f) contrast.Measure(f, {});
  EXPECT_TRUE(std::isnan(contrast.Value()));
  contrast.Measure(0, scores.Row(0));
  EXPECT_TRUE(std::isnan(contrast.Value()));
}

TEST(Contrast, IgnoresFramesThatAreNotFinite) {
  Matrix scores = RandomScores(6, 12);
  const double before = Measured(scores);
  Matrix more(7, 12);
  for (int f = 0; f < 7; ++f) std::ranges::copy(scores.Row(std::min(f, 5)), more.Row(f).begin());
  more(6, 3) = HUGE_VALF;
  EXPECT_EQ(Measured(more), before);
}

}  // namespace
}  // namespace antiphon::decode
