#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/random.h"

namespace antiphon {
namespace {

std::vector<double> Compute(int threads) {
  std::vector<double> results(1000);
  ParallelFor(results.size(), threads, [&](size_t i) {
    Rng rng(11, i);
    double sum = 0;
    for (int k = 0; k < 50; ++k) sum += rng.Normal();
    results[i] = sum;
  });
  return results;
}

TEST(ParallelFor, GivesTheSameBitsWithAnyNumberOfThreads) {
  const auto one = Compute(1);
  EXPECT_EQ(Compute(2), one);
  EXPECT_EQ(Compute(7), one);
  EXPECT_EQ(Compute(0), one);
}

TEST(ParallelFor, RunsEveryPieceOnce) {
  std::vector<std::atomic<int>> runs(500);
  ParallelFor(runs.size(), 4, [&](size_t i) { ++runs[i]; });
  for (const auto& count : runs) EXPECT_EQ(count, 1);
  ParallelFor(0, 4, [](size_t) { FAIL(); });
}

TEST(ParallelFor, RethrowsTheFirstErrorAndStops) {
  for (const int threads : {1, 3}) {
    std::atomic<int> started{0};
    try {
      ParallelFor(100000, threads, [&](size_t i) {
        ++started;
        if (i >= 10) Throw<InputError>("piece {}", i);
      });
      FAIL();
    } catch (const InputError& e) {
      EXPECT_STREQ(e.what(), "piece 10");
    }
    EXPECT_LT(started, 100000);
  }
}

TEST(ParallelFor, LimitsArithmeticInsideToOneThread) {
  std::vector<int> limits(8);
  ParallelFor(limits.size(), 2, [&](size_t i) { limits[i] = omp_get_max_threads(); });
  EXPECT_EQ(limits, std::vector<int>(8, 1));
}

}  // namespace
}  // namespace antiphon
