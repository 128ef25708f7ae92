// Differences, splicing and normalisation.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "feat/cmvn.h"
#include "feat/splice.h"
#include "reference.h"

namespace antiphon::feat {
namespace {

Matrix RandomFrames(int64_t rows, int64_t cols, uint64_t seed) {
  Matrix frames(rows, cols);
  Rng rng(seed);
  for (int64_t i = 0; i < frames.size(); ++i) frames.data()[i] = static_cast<float>(5 + 3 * rng.Normal());
  return frames;
}

TEST(Deltas, OfAConstantAreZero) {
  Matrix frames(20, 3);
  for (int64_t i = 0; i < frames.size(); ++i) frames.data()[i] = 4.0f;
  const Matrix out = AddDeltas(frames, 2, 2);
  for (int64_t t = 0; t < 20; ++t) {
    for (int64_t d = 3; d < 9; ++d) ASSERT_NEAR(out(t, d), 0.0f, 1e-6);
  }
}

TEST(Deltas, OfARampAreItsSlope) {
  Matrix frames(30, 1);
  for (int64_t t = 0; t < 30; ++t) frames(t, 0) = 0.5f * static_cast<float>(t);
  const Matrix out = AddDeltas(frames, 2, 2);
  for (int64_t t = 4; t < 26; ++t) {
    ASSERT_NEAR(out(t, 1), 0.5f, 1e-5);
    ASSERT_NEAR(out(t, 2), 0.0f, 1e-5);
  }
}

TEST(Deltas, HaveKaldisCoefficients) {
  const auto filters = DeltaFilters(2, 2);
  const std::vector<float> first = {-0.2f, -0.1f, 0.0f, 0.1f, 0.2f};
  const std::vector<float> second = {0.04f, 0.04f, 0.01f, -0.04f, -0.1f, -0.04f, 0.01f, 0.04f, 0.04f};
  for (size_t i = 0; i < first.size(); ++i) EXPECT_NEAR(filters[1][i], first[i], 1e-6);
  for (size_t i = 0; i < second.size(); ++i) EXPECT_NEAR(filters[2][i], second[i], 1e-6);
}

TEST(Splice, RepeatsTheEdges) {
  const Matrix frames = RandomFrames(5, 2, 1);
  const Matrix out = Splice(frames, 2, 3);
  ASSERT_EQ(out.cols(), 12);
  for (int64_t t = 0; t < 5; ++t) {
    for (int64_t s = -2; s <= 3; ++s) {
      for (int64_t d = 0; d < 2; ++d) {
        ASSERT_EQ(out(t, (s + 2) * 2 + d), frames(std::clamp<int64_t>(t + s, 0, 4), d));
      }
    }
  }
}

TEST(Cmvn, GivesMeanZeroAndVarianceOne) {
  Matrix frames = RandomFrames(500, 4, 2);
  NormalizeUtterance(frames, true);
  for (int64_t d = 0; d < 4; ++d) {
    double sum = 0, square = 0;
    for (int64_t t = 0; t < 500; ++t) {
      sum += frames(t, d);
      square += frames(t, d) * frames(t, d);
    }
    EXPECT_NEAR(sum / 500, 0.0, 1e-5);
    EXPECT_NEAR(square / 500, 1.0, 1e-4);
  }
}

TEST(Cmvn, OfASpeakerIsTheSumOverUtterances) {
  const Matrix a = RandomFrames(30, 3, 3), b = RandomFrames(70, 3, 4);
  CmvnStats whole, first, second;
  whole.Add(a);
  whole.Add(b);
  first.Add(a);
  second.Add(b);
  first.Add(second);
  EXPECT_EQ(first.count(), 100);
  for (int d = 0; d < 3; ++d) {
    EXPECT_NEAR(first.Mean(d), whole.Mean(d), 1e-12);
    EXPECT_NEAR(first.Variance(d), whole.Variance(d), 1e-9);
  }
}

TEST(Cmvn, RefusesWrongShapes) {
  Matrix frames = RandomFrames(5, 3, 5);
  CmvnStats stats(4);
  EXPECT_THROW(stats.Add(frames), ShapeError);
  EXPECT_THROW(CmvnStats(3).Apply(frames, false), InputError);
  EXPECT_THROW(CmvnStats::FromMatrix(DoubleMatrix(3, 4)), ShapeError);
}

TEST(SlidingCmvn, EqualsPlainWindows) {
  const Matrix frames = RandomFrames(150, 2, 6);
  for (const bool center : {false, true}) {
    for (const bool variance : {false, true}) {
      const Matrix out =
          SlidingCmvn(frames, {.window = 40, .min_window = 20, .normalize_variance = variance, .center = center});
      for (int64_t t = 0; t < 150; ++t) {
        // Kaldi's windows, written out.
        int64_t from = center ? t - 20 : t - 40, to = center ? t + 20 : t + 1;
        if (from < 0) {
          to -= from;
          from = 0;
        }
        if (!center) to = std::max<int64_t>(t + 1, 20);
        if (to > 150) {
          from = std::max<int64_t>(0, from - (to - 150));
          to = 150;
        }
        for (int64_t d = 0; d < 2; ++d) {
          double mean = 0, square = 0;
          for (int64_t s = from; s < to; ++s) {
            mean += frames(s, d) / static_cast<double>(to - from);
            square += frames(s, d) * frames(s, d) / static_cast<double>(to - from);
          }
          const double expected = (frames(t, d) - mean) / (variance ? std::sqrt(square - mean * mean) : 1.0);
          ASSERT_NEAR(out(t, d), expected, 1e-4);
        }
      }
    }
  }
}

}  // namespace
}  // namespace antiphon::feat
