#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "feat/cmvn.h"

namespace antiphon::feat {
namespace {

TEST(SlidingCmvnStream, GivesTheSameFramesAsTheWholeAtOnce) {
  Rng rng(1);
  for (const int length : {0, 1, 7, 40, 150}) {
    Matrix frames(length, 3);
    for (int64_t i = 0; i < frames.size(); ++i) frames.data()[i] = static_cast<float>(5 + rng.Normal());
    for (const bool variance : {false, true}) {
      const SlidingCmvnOptions options{.window = 30, .min_window = 10, .normalize_variance = variance, .center = false};
      const Matrix whole = SlidingCmvn(frames, options);
      SlidingCmvnStream stream(3, options);
      std::vector<float> pieces;
      const auto take = [&] {
        const Matrix taken = stream.Take();
        pieces.insert(pieces.end(), taken.data(), taken.data() + taken.size());
      };
      for (int64_t at = 0; at < length;) {
        const auto count = std::min<int64_t>(length - at, static_cast<int64_t>(rng.Below(6)));
        stream.Accept(frames.view().Rows(at, count));
        at += count;
        take();
      }
      stream.Finish();
      take();
      ASSERT_EQ(std::ssize(pieces), whole.size());
      for (int64_t i = 0; i < whole.size(); ++i) EXPECT_EQ(pieces[static_cast<size_t>(i)], whole.data()[i]);
    }
  }
}

TEST(SlidingCmvnStream, RefusesWindowsThatReachAhead) {
  EXPECT_THROW(SlidingCmvnStream(3, {.window = 10, .min_window = 5, .normalize_variance = false, .center = true}),
               UsageError);
}

}  // namespace
}  // namespace antiphon::feat
