#include "base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

namespace antiphon {
namespace {

using Block = std::array<uint32_t, 4>;

// Known answers of the Random123 distribution (kat_vectors, philox4x32, 10 rounds).
TEST(Philox, GivesTheKnownAnswersOfRandom123) {
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Rng, ReachesAnyPositionAtOnce) {
  Rng walked(7, 3);
  for (int i = 0; i < 1001; ++i) walked.NextU32();
  Rng jumped(7, 3);
  jumped.Seek(walked.position());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(jumped.NextU32(), walked.NextU32());
}

TEST(Rng, StreamsAndSeedsDiffer) {
  std::set<uint64_t> first;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    for (uint64_t stream = 0; stream < 8; ++stream) first.insert(Rng(seed, stream).NextU64());
  }
  EXPECT_EQ(first.size(), 64u);
  EXPECT_NE(MixSeed(1, 2), MixSeed(2, 1));
}

TEST(Rng, UniformAndNormalHaveTheirMoments) {
  Rng rng(1);
  const int count = 200000;
  double sum = 0, normal_sum = 0, normal_squares = 0;
  for (int i = 0; i < count; ++i) {
    const double u = rng.Uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
  }
  for (int i = 0; i < count; ++i) {
    const double x = rng.Normal();
    normal_sum += x;
    normal_squares += x * x;
  }
  EXPECT_NEAR(sum / count, 0.5, 5 * std::sqrt(1.0 / 12 / count));
  EXPECT_NEAR(normal_sum / count, 0.0, 5 / std::sqrt(count));
  EXPECT_NEAR(normal_squares / count, 1.0, 5 * std::sqrt(2.0 / count));
}

TEST(Rng, BelowIsUniformWithoutModuloBias) {
  Rng rng(5);
  // Two thirds of 2^64: a plain remainder would favour the lower half of the range twice over.
  const uint64_t n = (UINT64_MAX / 3) * 2;
  int low = 0;
  const int count = 20000;
  for (int i = 0; i < count; ++i) low += rng.Below(n) < n / 2 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(low) / count, 0.5, 5 * 0.5 / std::sqrt(count));
  EXPECT_EQ(rng.Below(1), 0u);
}

TEST(Rng, ShufflePermutesAndDependsOnTheSeedAlone) {
  std::vector<int> a(100), b(100), c(100);
  std::iota(a.begin(), a.end(), 0);
  b = a;
  c = a;
  Rng(3).Shuffle(std::span(a));
  Rng(3).Shuffle(std::span(b));
  Rng(4).Shuffle(std::span(c));
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  std::sort(a.begin(), a.end());
  EXPECT_EQ(a.front(), 0);
  EXPECT_EQ(a.back(), 99);
  EXPECT_EQ(std::adjacent_find(a.begin(), a.end()), a.end());
}

}  // namespace
}  // namespace antiphon
