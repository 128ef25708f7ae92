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

// The speaker's earlier speech stands before the utterance, as far as the window reaches.
TEST(SlidingCmvnStream, WhatIsKnownOfTheSpeakerFillsUpTheWindow) {
  constexpr int kEarlier = 12;
  Rng rng(2);
  Matrix all(kEarlier + 100, 3);
  for (int64_t i = 0; i < all.size(); ++i) all.data()[i] = static_cast<float>(5 + rng.Normal());
  const ConstMatrixView earlier = all.view().Rows(0, kEarlier), later = all.view().Rows(kEarlier, 100);
  for (const bool variance : {false, true}) {
    const SlidingCmvnOptions options{.window = 40, .min_window = 10, .normalize_variance = variance, .center = false};
    SlidingCmvnStream before(3, options);
    before.Accept(earlier);
    before.Finish();
    before.Take();
    const SpeakerMean speaker = before.speaker();
    EXPECT_EQ(speaker.frames, kEarlier);
    SlidingCmvnStream stream(3, options, speaker);
    Matrix found(later.rows(), 3);
    int64_t taken = 0;
    for (int64_t at = 0; at < later.rows(); at += 4) {
      stream.Accept(later.Rows(at, 4));
      const Matrix piece = stream.Take();  // at once: enough frames are known
      ASSERT_EQ(piece.rows(), 4);
      std::copy(piece.data(), piece.data() + piece.size(), found.Row(taken).data());
      taken += piece.rows();
    }
    const Matrix expected = SlidingCmvn(all, options);
    const int whole = options.window - kEarlier;  // while nothing had to be left out
    for (int t = 0; t < whole; ++t) {
      for (int d = 0; d < 3; ++d) EXPECT_NEAR(found(t, d), expected(kEarlier + t, d), 1e-5) << t;
    }
    for (int t = options.window; t < 100; ++t) {
      for (int d = 0; d < 3; ++d) EXPECT_NEAR(found(t, d), expected(kEarlier + t, d), 1e-5) << t;
    }
    EXPECT_EQ(stream.speaker().frames, options.window + 1);  // the frame and those before it
  }
  SlidingCmvnStream silent(3, {.window = 40, .min_window = 10, .normalize_variance = false, .center = false});
  EXPECT_EQ(silent.speaker(), SpeakerMean());
}

TEST(SlidingCmvnStream, RefusesWindowsThatReachAhead) {
  EXPECT_THROW(SlidingCmvnStream(3, {.window = 10, .min_window = 5, .normalize_variance = false, .center = true}),
               UsageError);
}

}  // namespace
}  // namespace antiphon::feat
