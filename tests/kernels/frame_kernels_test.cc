// Kernels on frames in lanes, for every instruction set of this CPU.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "base/random.h"
#include "kernels/fft.h"
#include "kernels/frame_block.h"
#include "kernels/gaussian_noise.h"
#include "math/matrix.h"

namespace antiphon {
namespace {

// Runs `body` once per instruction set.
void ForEachTarget(const std::function<void(const char*)>& body) {
  for (int64_t targets = hwy::SupportedTargets(); targets != 0; targets &= targets - 1) {
    const int64_t target = targets & -targets;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

Matrix RandomBlock(int rows, uint64_t seed, double scale = 1.0) {
  Matrix block(rows, kFrameLanes);
  Rng rng(seed);
  for (int64_t i = 0; i < block.size(); ++i) block.data()[i] = static_cast<float>(scale * rng.Normal());
  return block;
}

TEST(BlockFft, AgreesWithKissFftAtEverySize) {
  ForEachTarget([](const char* target) {
    for (int size = 4; size <= 4096; size *= 2) {
      const Matrix input = RandomBlock(size, static_cast<uint64_t>(size), 1000.0);
      Matrix work = input, power(size / 2 + 1, kFrameLanes), expected(size / 2 + 1, kFrameLanes);
      BlockFftPowerRef(size, input.data(), expected.data());
      BlockFft(size).Power(work.data(), power.data());
      for (int64_t i = 0; i < power.size(); ++i) {
        ASSERT_NEAR(power.data()[i], expected.data()[i], 1e-5 * (expected.data()[i] + 1e6 * size)) << target << size;
      }
    }
  });
}

TEST(BlockFft, LanesDoNotSeeEachOther) {
  const int size = 512;
  const Matrix input = RandomBlock(size, 1), other = RandomBlock(size, 2, 1e10);
  const BlockFft fft(size);
  Matrix alone = input, power(size / 2 + 1, kFrameLanes), crowded_power(size / 2 + 1, kFrameLanes);
  Matrix crowded = other;
  for (int i = 0; i < size; ++i) crowded(i, 5) = input(i, 5);
  fft.Power(alone.data(), power.data());
  fft.Power(crowded.data(), crowded_power.data());
  for (int k = 0; k <= size / 2; ++k) ASSERT_EQ(power(k, 5), crowded_power(k, 5));
}

TEST(CutFrames, IsMeanEnergyPreemphasisAndWindow) {
  FrameWindow window;
  for (int i = 0; i < 25; ++i) window.window.push_back(0.1f + static_cast<float>(i) / 25);
  window.padded_length = 32;
  window.preemphasis = 0.97f;
  const int64_t shift = 10;
  const Matrix samples = RandomBlock(12, 3, 100.0);
  ForEachTarget([&](const char* target) {
    Matrix block(32, kFrameLanes), energy(1, kFrameLanes);
    CutFrames(window, samples.data(), shift, 7, block.data(), energy.data());
    for (int l = 0; l < kFrameLanes; ++l) {
      const float* x = samples.data() + (l < 7 ? l * shift : 0);
      double mean = 0, sum = 0;
      for (int i = 0; i < 25; ++i) mean += x[i] / 25.0;
      for (int i = 0; i < 25; ++i) {
        sum += (x[i] - mean) * (x[i] - mean);
        const double y = (x[i] - mean) - 0.97 * (x[std::max(i - 1, 0)] - mean);
        ASSERT_NEAR(block(i, l), y * (0.1 + i / 25.0), 1e-3) << target;
      }
      ASSERT_NEAR(energy(0, l), sum, 1e-5 * sum);
      for (int i = 25; i < 32; ++i) ASSERT_EQ(block(i, l), 0.0f);
    }
  });
}

TEST(BlockMatrices, BandedAndDenseAgreeWithPlainSums) {
  const BandedMatrix banded = {{2, 0, 5}, {3, 1, 0}, {1, 2, 3, 4}};
  const std::vector<float> dense = {0, 0, 1, 2, 3, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  const Matrix in = RandomBlock(6, 4);
  ForEachTarget([&](const char* target) {
    Matrix a(3, kFrameLanes), b(3, kFrameLanes);
    BandedTimesBlock(banded, in.data(), a.data());
    DenseTimesBlock(dense, 3, 6, in.data(), b.data());
    for (int l = 0; l < kFrameLanes; ++l) {
      ASSERT_NEAR(a(0, l), in(2, l) + 2 * in(3, l) + 3 * in(4, l), 1e-5) << target;
      ASSERT_NEAR(a(1, l), 4 * in(0, l), 1e-5);
      ASSERT_EQ(a(2, l), 0.0f);
      for (int r = 0; r < 3; ++r) ASSERT_NEAR(a(r, l), b(r, l), 1e-5);
    }
  });
}

TEST(BlockFunctions, LogarithmAndPowerHaveFloors) {
  ForEachTarget([](const char* target) {
    Matrix x(2, kFrameLanes), y(2, kFrameLanes);
    for (int64_t i = 0; i < x.size(); ++i) x.data()[i] = y.data()[i] = i == 0 ? 0.0f : std::pow(10.0f, i - 10.0f);
    LogBlock(x.data(), 2, 1e-6f);
    const std::vector<float> scale = {2.0f, 0.5f};
    ScaledPowerBlock(y.data(), scale, 1e-6f, 0.33333f);
    for (int64_t i = 0; i < x.size(); ++i) {
      const double value = std::max(1e-6, i == 0 ? 0.0 : std::pow(10.0, static_cast<double>(i) - 10.0));
      ASSERT_NEAR(x.data()[i], std::log(value), 1e-5) << target;
      const double power = std::pow(value * (i < 16 ? 2.0 : 0.5), 0.33333);
      ASSERT_NEAR(y.data()[i], power, 2e-6 * power) << target << i;
    }
  });
}

TEST(LpcCepstra, FindsTheCoefficientsOfAKnownProcess) {
  // x_t = 0.9 x_{t-1} - 0.5 x_{t-2} + e_t: its autocorrelation, and the cepstrum of 1/(1 - 0.9 z^-1 + 0.5 z^-2).
  const double p1 = 0.9, p2 = -0.5;
  std::vector<double> r = {1.0, p1 / (1 - p2)};
  for (int i = 2; i <= 12; ++i) r.push_back(p1 * r[i - 1] + p2 * r[i - 2]);
  ForEachTarget([&](const char* target) {
    Matrix autocorrelation(13, kFrameLanes), lpc(12, kFrameLanes), cepstra(13, kFrameLanes), scratch(12, kFrameLanes);
    for (int i = 0; i <= 12; ++i) {
      for (int l = 0; l < kFrameLanes; ++l) autocorrelation(i, l) = static_cast<float>(r[i] * (l + 1) * 100);
    }
    LpcCepstraBlock(autocorrelation.data(), 12, lpc.data(), cepstra.data(), scratch.data());
    for (int l = 0; l < kFrameLanes; ++l) {
      ASSERT_NEAR(lpc(0, l), -p1, 1e-5) << target;
      ASSERT_NEAR(lpc(1, l), -p2, 1e-5);
      for (int i = 2; i < 12; ++i) ASSERT_NEAR(lpc(i, l), 0.0, 1e-5);
      const double residual = 100.0 * (l + 1) * (r[0] - p1 * r[1] - p2 * r[2]);
      ASSERT_NEAR(cepstra(0, l), std::log(residual), 1e-5);
      ASSERT_NEAR(cepstra(1, l), p1, 1e-5);
      ASSERT_NEAR(cepstra(2, l), p2 + p1 * p1 / 2, 1e-5);
    }
  });
}

TEST(GaussianNoise, AgreesWithTheReferenceWhereverACallBegins) {
  const int64_t n = 1000;
  std::vector<float> expected(n);
  AddGaussianNoiseRef(0x123456789abcdefULL, 37, n, 2.0f, expected.data());
  ForEachTarget([&](const char* target) {
    std::vector<float> whole(n), cut(n);
    AddGaussianNoise(0x123456789abcdefULL, 37, n, 2.0f, whole.data());
    for (int64_t at = 0, step = 1; at < n; at += step, step = step * 3 % 101) {
      step = std::min(step, n - at);
      AddGaussianNoise(0x123456789abcdefULL, 37 + at, step, 2.0f, cut.data() + at);
    }
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_NEAR(whole[i], expected[i], 1e-5) << target << " " << i;
      ASSERT_EQ(whole[i], cut[i]);
    }
  });
}

TEST(GaussianNoise, IsGaussian) {
  std::vector<float> x(200000), y(200000);
  AddGaussianNoise(1, 0, 200000, 1.0f, x.data());
  AddGaussianNoise(2, 0, 200000, 1.0f, y.data());
  double mean = 0, square = 0, fourth = 0, lagged = 0, other = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    mean += x[i];
    square += x[i] * x[i];
    fourth += std::pow(x[i], 4);
    other += x[i] * y[i];
    if (i >= 16) lagged += x[i] * x[i - 16];
  }
  const double n = static_cast<double>(x.size());
  EXPECT_NEAR(mean / n, 0.0, 0.01);
  EXPECT_NEAR(square / n, 1.0, 0.015);
  EXPECT_NEAR(fourth / n, 3.0, 0.1);
  EXPECT_NEAR(lagged / n, 0.0, 0.01);
  EXPECT_NEAR(other / n, 0.0, 0.01);
}

}  // namespace
}  // namespace antiphon
