#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "nn/network.h"

namespace antiphon::nn {
namespace {

constexpr int kMaskedFrames = 5;
constexpr int kFeatures = 6;

Matrix Masked(bool training, double factor, const std::string& keys) {
  const Network network(Config::Parse("[[layer]]\ntype = \"spec-mask\"\nfeature-dim = 6\n" + keys, "net"),
                        kMaskedFrames * kFeatures, 0, 1);
  Matrix x(400, kMaskedFrames * kFeatures);
  for (int64_t i = 0; i < x.size(); ++i) x.data()[i] = 1.0f;
  ExecContext ctx;
  ctx.training = training;
  ctx.dropout_factor = factor;
  Workspace ws;
  return Matrix(ConstMatrixView(network.Forward(ctx, x, ws)));
}

TEST(SpecMask, LeavesEverythingWhenScoringOrWhenTheScheduleSaysNone) {
  for (const Matrix& y : {Masked(false, 1, ""), Masked(true, 0, "")}) {
    for (int64_t i = 0; i < y.size(); ++i) ASSERT_EQ(y.data()[i], 1.0f);
  }
}

TEST(SpecMask, TakesOneBandOfNeighboursThroughTheWholeWindow) {
  const Matrix y = Masked(true, 1, "band-probability = 1.0\nframe-probability = 0.0\nmax-bands = 3\n");
  std::vector<int> widths(kFeatures + 1, 0);
  for (int64_t r = 0; r < y.rows(); ++r) {
    int zeros = 0;
    int changes = 0;
    for (int c = 0; c < kFeatures; ++c) {
      for (int t = 1; t < kMaskedFrames; ++t) ASSERT_EQ(y(r, t * kFeatures + c), y(r, c)) << "row " << r;
      zeros += y(r, c) == 0.0f ? 1 : 0;
      changes += c > 0 && y(r, c) != y(r, c - 1) ? 1 : 0;
    }
    ASSERT_LE(changes, 2) << "one band";
    ++widths[static_cast<size_t>(zeros)];
  }
  EXPECT_EQ(widths[0], 0);
  for (const int width : {1, 2, 3}) EXPECT_GT(widths[static_cast<size_t>(width)], 80) << width;
}

TEST(SpecMask, TakesASpanOfContextFramesAsOftenAsAsked) {
  const Matrix y = Masked(true, 0.5, "band-probability = 0.0\nframe-probability = 0.8\nmax-frames = 2\n");
  int masked = 0;
  for (int64_t r = 0; r < y.rows(); ++r) {
    int zero_frames = 0;
    for (int t = 0; t < kMaskedFrames; ++t) {
      for (int c = 1; c < kFeatures; ++c) ASSERT_EQ(y(r, t * kFeatures + c), y(r, t * kFeatures));
      zero_frames += y(r, t * kFeatures) == 0.0f ? 1 : 0;
    }
    ASSERT_LE(zero_frames, 2);
    masked += zero_frames > 0 ? 1 : 0;
  }
  EXPECT_NEAR(masked, 0.4 * 400, 40);
}

// One band and runs of frames for each chunk, over the first columns alone.
TEST(SpecMask, OfAChunkTakesABandAndRunsOfFrames) {
  constexpr int kStreams = 60, kChunk = 100, kFilters = 8, kColumns = 10;
  const Network network(Config::Parse("[[layer]]\ntype = \"spec-mask\"\nfeature-dim = 8\nper-chunk = true\nmax-bands = "
                                      "4\nmax-frames = 10\nband-probability = 1.0\nframe-probability = 1.0\n",
                                      "net"),
                        kColumns, 0, 1);
  Matrix x(kStreams * kChunk, kColumns);
  for (int64_t i = 0; i < x.size(); ++i) x.data()[i] = 1.0f;
  const SequenceLayout layout{.streams = kStreams, .frames = kChunk};
  ExecContext ctx;
  ctx.training = true;
  ctx.sequences = &layout;
  Workspace ws;
  const MatrixView y = network.Forward(ctx, x, ws);
  int masked = 0, most = 0;
  std::vector<int> widths(kFilters + 1, 0);
  for (int s = 0; s < kStreams; ++s) {
    std::vector<bool> whole(kChunk, true), band(kFilters, true);
    for (int t = 0; t < kChunk; ++t) {
      for (int c = 0; c < kFilters; ++c) whole[t] = whole[t] && y(t * kStreams + s, c) == 0;
      for (int c = kFilters; c < kColumns; ++c) EXPECT_EQ(y(t * kStreams + s, c), 1.0f);
    }
    for (int t = 0; t < kChunk; ++t) {
      for (int c = 0; c < kFilters; ++c) band[c] = band[c] && (whole[t] || y(t * kStreams + s, c) == 0);
    }
    int frames = 0, changes = 0;
    for (int t = 0; t < kChunk; ++t) {
      frames += whole[t] ? 1 : 0;
      for (int c = 0; c < kFilters; ++c) EXPECT_EQ(y(t * kStreams + s, c) == 0, whole[t] || band[c]);
    }
    for (int c = 1; c < kFilters; ++c) changes += band[c] != band[c - 1] ? 1 : 0;
    EXPECT_LE(changes, 2) << "one band";
    EXPECT_LE(frames, 20);
    ++widths[static_cast<size_t>(std::count(band.begin(), band.end(), true))];
    masked += frames;
    most = std::max(most, frames);
  }
  for (const int width : {1, 2, 3, 4}) EXPECT_GT(widths[static_cast<size_t>(width)], 5) << width;
  EXPECT_NEAR(masked, 0.1 * kStreams * kChunk, 0.02 * kStreams * kChunk);
  EXPECT_GT(most, 17);
  NullGradientSink sink;
  const MatrixView dx = const_cast<Network&>(network).Backward(ctx, x, ws, sink, true);
  EXPECT_EQ(std::memcmp(dx.data(), y.data(), sizeof(float) * static_cast<size_t>(x.size())), 0);
}

TEST(SpecMask, RefusesAShareOfFramesWithoutChunks) {
  const std::string keys = "[[layer]]\ntype = \"spec-mask\"\nmax-frame-share = 0.1\n";
  EXPECT_THROW(Network(Config::Parse(keys, "net"), 30, 0, 1), UsageError);
  const Network plain(Config::Parse("[[layer]]\ntype = \"spec-mask\"\n", "net"), 30, 0, 1);
  EXPECT_NO_THROW(plain.Clone());
}

TEST(SpecMask, RefusesAWindowThatItsFramesDoNotFill) {
  EXPECT_THROW(Network(Config::Parse("[[layer]]\ntype = \"spec-mask\"\nfeature-dim = 7\n", "net"), 30, 0, 1),
               UsageError);
}

}  // namespace
}  // namespace antiphon::nn
