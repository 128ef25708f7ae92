#include "feat/pitch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "feat/splice.h"
#include "reference.h"

namespace antiphon::feat {
namespace {

std::vector<float> PulseTrain(double hz, int rate, double amplitude = 5000) {
  std::vector<float> x(static_cast<size_t>(rate), 0.0f);
  for (int harmonic = 1; harmonic * hz < 0.45 * rate; ++harmonic) {
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] += static_cast<float>(amplitude / 20 *
                                 std::cos(2 * std::numbers::pi * hz * harmonic * static_cast<double>(i) / rate));
    }
  }
  return x;
}

double MedianPitch(const Matrix& raw) {
  std::vector<float> values;
  for (int64_t t = 5; t + 5 < raw.rows(); ++t) values.push_back(raw(t, 1));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

TEST(Pitch, FindsPulseTrainsWithinOnePercent) {
  for (const int rate : {8000, 16000, 22050}) {
    FrontEndOptions options;
    options.sample_rate_hz = rate;
    const PitchTracker tracker(options);
    for (const double hz : {60.0, 75.0, 100.0, 137.0, 190.0, 250.0, 333.0, 390.0}) {
      const Matrix raw = tracker.Compute(PulseTrain(hz, rate));
      EXPECT_NEAR(MedianPitch(raw), hz, 0.01 * hz) << rate;
    }
  }
}

TEST(Pitch, DoesNotDependOnGain) {
  std::vector<float> x = WhiteNoise(16000, 100, 1), pulses = PulseTrain(120, 16000, 2000);
  for (size_t i = 4000; i < 12000; ++i) x[i] += pulses[i];
  std::vector<float> louder = x;
  for (float& v : louder) v *= 10;
  const PitchTracker tracker{FrontEndOptions()};
  const Matrix a = tracker.Compute(x), b = tracker.Compute(louder);
  int64_t equal = 0;
  for (int64_t t = 0; t < a.rows(); ++t) equal += a(t, 1) == b(t, 1);
  EXPECT_GE(equal, a.rows() * 99 / 100);
}

TEST(Pitch, LongSignalsSettleTheirPathOnTheWay) {
  // Longer than one stretch between commits; the answer must equal that of a naive search.
  std::vector<float> x = WhiteNoise(16000 * 15, 300, 3);
  const PitchTracker tracker{FrontEndOptions()};
  const Matrix raw = tracker.Compute(x);
  EXPECT_EQ(raw.rows(), 1498);
  for (int64_t t = 0; t < raw.rows(); ++t) ASSERT_TRUE(raw(t, 1) > 49 && raw(t, 1) < 401);
}

TEST(QuadraticTransition, EqualsNaiveSearch) {
  Rng rng(11);
  const float factor = 2.4875e-6f;
  QuadraticTransition fast;
  for (int round = 0; round < 200; ++round) {
    const int n = 1 + static_cast<int>(rng.Below(417));
    std::vector<float> previous(static_cast<size_t>(n)), cost(previous);
    std::vector<uint16_t> from(static_cast<size_t>(n));
    double level = 0;
    for (float& v : previous) {
      level += 0.02 * rng.Normal();
      v = static_cast<float>(round % 3 == 0 ? 0.0 : round % 3 == 1 ? rng.Uniform() : std::fabs(level));
    }
    fast.Step(previous, factor, cost, from);
    for (int i = 0; i < n; ++i) {
      float best = std::numeric_limits<float>::infinity();
      for (int j = 0; j < n; ++j) {
        best = std::min(best, static_cast<float>((j - i) * (j - i)) * factor + previous[static_cast<size_t>(j)]);
      }
      ASSERT_NEAR(cost[static_cast<size_t>(i)], best, 1e-6) << n << " " << i;
      ASSERT_GE(from[static_cast<size_t>(i)], from[static_cast<size_t>(std::max(i, 1)) - 1]);
    }
  }
}

TEST(Pitch, PostProcessingCentresVoicedPitch) {
  Matrix raw(100, 2);
  for (int64_t t = 0; t < 100; ++t) {
    raw(t, 0) = 0.9f;
    raw(t, 1) = 100.0f * std::exp(0.01f * static_cast<float>(t));
  }
  const Matrix three = PostProcessPitch(raw, 3), one = PostProcessPitch(raw, 1);
  ASSERT_EQ(three.cols(), 3);
  ASSERT_EQ(one.cols(), 1);
  for (int64_t t = 0; t < 100; ++t) EXPECT_EQ(one(t, 0), three(t, 1));
  EXPECT_NEAR(three(50, 2), 0.1, 1e-4);  // ten times the slope
  EXPECT_NEAR(three(50, 0), 2 * (std::pow(0.1001, 0.15) - 1), 1e-5);
  // The window of frame 20 is 0 … 95.
  EXPECT_NEAR(three(20, 1), 2 * 0.01 * (20 - 47.5), 1e-4);
}

}  // namespace
}  // namespace antiphon::feat
