// Cutting utterances into chunks of given widths: coverage, waste, and what is left to chance.
#include "data/chunk_cut.h"

#include <gtest/gtest.h>

#include <set>

namespace antiphon::data::internal {
namespace {

const std::vector<int> kWidths = {140, 100, 160};

int Waste(const std::vector<ChunkCut::Piece>& pieces, int frames, const ChunkCut& cut) {
  int covered = 0, seen = 0;
  for (const auto& piece : pieces) {
    seen += piece.count;
    int width = 1 << 30;
    for (const int w : kWidths) width = cut.Rounded(w) >= piece.count ? std::min(width, cut.Rounded(w)) : width;
    covered += width;
  }
  return covered - seen + (frames - seen);
}

// The least waste of all sequences of widths, by trying all.
int LeastWaste(int frames, const std::vector<int>& widths) {
  int best = 1 << 30;
  for (int a = 0; a * widths[0] <= frames + widths[0]; ++a) {
    for (int b = 0; b * widths[1] <= frames + widths[1]; ++b) {
      for (int c = 0; c * widths[2] <= frames + widths[2]; ++c) {
        if (a + b + c == 0) continue;
        best = std::min(best, std::abs(a * widths[0] + b * widths[1] + c * widths[2] - frames));
      }
    }
  }
  return best;
}

TEST(ChunkCut, ChunksFollowOneAnotherWithoutOverlapAndOnlyTheLastLacksFrames) {
  for (const int stride : {1, 3}) {
    const ChunkCut cut(kWidths, stride);
    for (int frames = 1; frames < 1000; frames += 7) {
      for (const int begin : {0, 2}) {
        Rng rng(1, static_cast<uint64_t>(frames));
        const auto pieces = cut.Cut(begin, begin + frames, &rng);
        ASSERT_FALSE(pieces.empty());
        int32_t end = begin;
        for (size_t i = 0; i < pieces.size(); ++i) {
          EXPECT_GE(pieces[i].first, end);
          EXPECT_EQ((pieces[i].first - begin) % stride, 0);
          EXPECT_GT(pieces[i].count, 0);
          if (i > 0) {
            EXPECT_EQ(pieces[i].first, end);
          }
          if (i + 1 < pieces.size()) {
            EXPECT_TRUE(pieces[i].count == cut.Rounded(140) || pieces[i].count == cut.Rounded(100) ||
                        pieces[i].count == cut.Rounded(160));
          }
          end = pieces[i].first + pieces[i].count;
        }
        EXPECT_LE(end, begin + frames);
      }
    }
  }
}

TEST(ChunkCut, LeastIsWasted) {
  const ChunkCut cut(kWidths, 1);
  for (int frames = 1; frames < 1200; ++frames) {
    EXPECT_EQ(Waste(cut.Cut(0, frames, nullptr), frames, cut), LeastWaste(frames, kWidths)) << frames;
  }
}

TEST(ChunkCut, LongUtterancesAreCoveredTooAndChunksAreMostlyOfTheFirstWidth) {
  const ChunkCut cut(kWidths, 3);
  const int frames = 1'000'000;
  const auto pieces = cut.Cut(0, frames, nullptr);
  int preferred = 0;
  for (const auto& piece : pieces) preferred += piece.count == 141 ? 1 : 0;
  EXPECT_GT(preferred, static_cast<int>(pieces.size()) - 10);
  EXPECT_NEAR(pieces.back().first + pieces.back().count, frames, 3);
}

TEST(ChunkCut, OtherFramesAreLeftOutInAnotherDraw) {
  const ChunkCut cut(kWidths, 3);
  std::set<int32_t> begins;
  for (uint64_t draw = 0; draw < 20; ++draw) {
    Rng rng(draw, 1);
    const auto pieces = cut.Cut(0, 110, &rng);
    ASSERT_EQ(pieces.size(), 1u);
    EXPECT_EQ((pieces[0].count + 2) / 3, 34);
    begins.insert(pieces[0].first);
  }
  EXPECT_EQ(begins, (std::set<int32_t>{0, 3, 6, 9}));
}

}  // namespace
}  // namespace antiphon::data::internal
