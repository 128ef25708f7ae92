#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>
#include <vector>

#include "base/cancel.h"
#include "base/compute_threads.h"
#include "base/error.h"
#include "base/random.h"
#include "base/try_thread.h"
#include "temporary_folder.h"
#include "without_threads.h"

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

TEST(ParallelFor, IsDoneByTheCallerWhereTheSystemGivesNoThreads) {
  const testing::WithoutThreads without;
  std::vector<std::thread> none;
  ASSERT_FALSE(TryThread(none, [] {}));
  EXPECT_EQ(Compute(7), Compute(1));
  std::vector<size_t> consumed;
  ParallelInOrder<size_t>(
      50, 3, [](size_t i) { return i * i; },
      [&](size_t i, size_t&& square) {
        EXPECT_EQ(square, i * i);
        consumed.push_back(i);
      });
  EXPECT_EQ(consumed.size(), 50u);
  std::atomic<int> pieces{0};
  const ComputeThreadsScope many(9);
  ParallelPieces(30, [&](int64_t, int) { ++pieces; });
  EXPECT_EQ(pieces, 30);
}

TEST(ParallelFor, WhoAsksTheCallerToStopAsksThePieces) {
  std::atomic<bool> stop{false};
  const CancelScope scope(&stop);
  for (const int threads : {1, 3}) {
    stop = false;
    const auto look = [&](size_t i) {
      if (i == 5) stop = true;
      ThrowIfCancelled("testing");
    };
    EXPECT_THROW(ParallelFor(100, threads, look), Cancelled) << threads;
    stop = false;
    EXPECT_THROW(ParallelInOrder<int>(
                     100, threads,
                     [&](size_t i) {
                       look(i);
                       return 0;
                     },
                     [](size_t, int&&) {}),
                 Cancelled)
        << threads;
  }
}

TEST(ParallelFor, LimitsArithmeticInsideToOneThread) {
  std::vector<int> limits(8);
  ParallelFor(limits.size(), 2, [&](size_t i) { limits[i] = ComputeThreads(); });
  EXPECT_EQ(limits, std::vector<int>(8, 1));
}

TEST(NumCores, StaysWithinWhatControlGroupsGrant) {
  const testing::TemporaryFolder root;
  std::filesystem::create_directories(root.path() / "pod" / "job" / "step");
  const auto cores = [&] { return internal::CoresOfControlGroup(root.path(), "/pod/job/step"); };
  const auto grant = [&](const std::string& group, const std::string& text) {
    std::ofstream(root.path() / group / "cpu.max") << text;
  };
  EXPECT_EQ(cores(), 0);
  grant("pod/job/step", "max 100000\n");
  EXPECT_EQ(cores(), 0);
  grant("pod", "350000 100000\n");
  EXPECT_EQ(cores(), 4);
  grant("pod/job", "120000 100000\n");
  EXPECT_EQ(cores(), 2);
  grant("pod/job/step", "10000 100000\n");
  EXPECT_EQ(cores(), 1);
  EXPECT_EQ(internal::CoresOfControlGroup(root.path(), "/"), 0);
  EXPECT_GE(NumCores(), 1);
}

}  // namespace
}  // namespace antiphon
