#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"

namespace antiphon {
namespace {

TEST(ParallelInOrder, ConsumesEveryResultInOrder) {
  for (const int threads : {1, 2, 5}) {
    std::vector<size_t> seen;
    ParallelInOrder<std::string>(
        100, threads, [](size_t i) { return std::to_string(i); },
        [&](size_t i, std::string&& text) {
          EXPECT_EQ(text, std::to_string(i));
          seen.push_back(i);
        });
    ASSERT_EQ(seen.size(), 100u);
    for (size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], i);
  }
}

TEST(ParallelInOrder, RethrowsTheFirstFailureAfterAllEarlierResults) {
  for (const int threads : {1, 3}) {
    size_t consumed = 0;
    const auto run = [&] {
      ParallelInOrder<int>(
          50, threads,
          [](size_t i) -> int {
            if (i == 20 || i == 31) Throw<InputError>("utterance {}", i);
            return 0;
          },
          [&](size_t, int&&) { ++consumed; });
    };
    try {
      run();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const InputError& e) {
      EXPECT_STREQ(e.what(), "utterance 20");
    }
    EXPECT_EQ(consumed, 20u);
  }
}

TEST(ParallelInOrder, EndsWhenTheConsumerFails) {
  std::atomic<int> produced{0};
  const auto run = [&] {
    ParallelInOrder<int>(
        1000000, 2, [&](size_t) { return produced++; },
        [](size_t i, int&&) {
          if (i == 3) Throw<IoError>("disk full");
        });
  };
  EXPECT_THROW(run(), IoError);
  EXPECT_LE(produced, 4 + 8);
}

TEST(ParallelInOrder, AcceptsNothingToDo) {
  ParallelInOrder<int>(
      0, 4, [](size_t) { return 0; }, [](size_t, int&&) { ADD_FAILURE(); });
}

}  // namespace
}  // namespace antiphon
