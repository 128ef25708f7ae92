#include "base/compute_threads.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/error.h"

namespace antiphon {
namespace {

TEST(ComputeThreads, RunEveryPieceOnceAndNameTheirMemory) {
  for (const int threads : {1, 2, 3, 8}) {
    const ComputeThreadsScope scope(threads);
    for (const int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(count));
      std::vector<std::atomic<int>> inside(static_cast<size_t>(threads));
      ParallelPieces(count, [&](int64_t piece, int thread) {
        ASSERT_LT(thread, threads);
        EXPECT_EQ(++inside[static_cast<size_t>(thread)], 1) << "two threads under one name";
        ++runs[static_cast<size_t>(piece)];
        --inside[static_cast<size_t>(thread)];
      });
      for (const auto& run : runs) EXPECT_EQ(run, 1);
    }
  }
}

TEST(ComputeThreads, HelpersTakeWhatTheCallerDoesNot) {
  const ComputeThreadsScope scope(2);
  std::atomic<int> arrived{0};
  // Each piece waits for the other: one thread alone would never end.
  ParallelPieces(2, [&](int64_t, int) {
    ++arrived;
    arrived.notify_all();
    for (int seen = arrived; seen < 2; seen = arrived) arrived.wait(seen);
  });
  EXPECT_EQ(arrived, 2);
}

TEST(ComputeThreads, AreOneWithinAPiece) {
  const ComputeThreadsScope scope(3);
  std::atomic<int> pieces{0};
  ParallelPieces(6, [&](int64_t, int) {
    EXPECT_EQ(ComputeThreads(), 1);
    const auto self = std::this_thread::get_id();
    ParallelPieces(5, [&](int64_t, int thread) {
      EXPECT_EQ(thread, 0);
      EXPECT_EQ(std::this_thread::get_id(), self);
      ++pieces;
    });
  });
  EXPECT_EQ(pieces, 30);
  EXPECT_EQ(ComputeThreads(), 3);
}

TEST(ComputeThreads, BelongToTheirCaller) {
  SetComputeThreads(5);
  int other = 0;
  std::thread([&] {
    SetComputeThreads(2);
    std::set<std::thread::id> threads;
    std::mutex mutex;
    for (int i = 0; i < 50; ++i) {
      ParallelPieces(8, [&](int64_t, int) {
        const std::lock_guard lock(mutex);
        threads.insert(std::this_thread::get_id());
      });
    }
    EXPECT_LE(threads.size(), 2U);
    other = ComputeThreads();
  }).join();
  EXPECT_EQ(other, 2);
  EXPECT_EQ(ComputeThreads(), 5);
}

TEST(ComputeThreads, RethrowTheFirstErrorAndGoOn) {
  for (const int threads : {1, 2, 4}) {
    const ComputeThreadsScope scope(threads);
    for (int round = 0; round < 20; ++round) {
      std::atomic<int64_t> started{0};
      try {
        ParallelPieces(100'000, [&](int64_t i, int) {
          ++started;
          if (i >= 10) Throw<InputError>("piece {}", i);
        });
        FAIL();
      } catch (const InputError& e) {
        EXPECT_STREQ(e.what(), "piece 10");
      }
      EXPECT_LT(started, 100'000);
      int64_t sum = 0;
      std::mutex mutex;
      ParallelPieces(100, [&](int64_t i, int) {
        const std::lock_guard lock(mutex);
        sum += i;
      });
      EXPECT_EQ(sum, 4950);
    }
  }
}

TEST(ComputeThreads, MayGrowAndShrink) {
  for (const int threads : {2, 6, 1, 3}) {
    const ComputeThreadsScope scope(threads);
    for (int round = 0; round < 200; ++round) {
      std::atomic<int> most{0};
      ParallelPieces(16, [&](int64_t, int thread) {
        int seen = most;
        while (seen < thread && !most.compare_exchange_weak(seen, thread)) {
        }
      });
      ASSERT_LT(most, threads);
    }
  }
}

// A forked process has the caller and none of its helpers.
TEST(ComputeThreads, WorkAloneAfterAFork) {
  const ComputeThreadsScope scope(3);
  ParallelPieces(8, [](int64_t, int) {});
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<int> pieces{0};
    ParallelPieces(8, [&](int64_t, int) { ++pieces; });
    _exit(pieces == 8 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace antiphon
