// Minibatches of several streams of consecutive frames.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <span>

#include "base/error.h"
#include "data/minibatch_pool.h"
#include "store_fixture.h"

namespace antiphon::data {
namespace {

class SequenceMinibatchTest : public ::testing::Test {
 protected:
  SequenceMinibatchTest() {
    MakeStore(folder_ / "store", 60);
    store_ = std::make_shared<const FrameStore>(folder_ / "store");
    options_.minibatch = 80;
    options_.chunk_frames = 10;  // 8 streams
    options_.left_context = options_.right_context = 0;
  }
  std::shared_ptr<MinibatchPool> Pool(TimeContext needed = {}, int world_size = 1) const {
    return std::make_shared<MinibatchPool>(store_, options_, 1, world_size, std::vector<size_t>{}, InputNormalisation{},
                                           needed);
  }
  std::vector<size_t> UtteranceOfFrame() const {
    std::vector<size_t> owner(static_cast<size_t>(store_->num_frames()));
    for (size_t u = 0; u < store_->utterances().size(); ++u) {
      const auto& utterance = store_->utterances()[u];
      for (int t = 0; t < utterance.num_frames; ++t) owner[static_cast<size_t>(utterance.first_frame + t)] = u;
    }
    return owner;
  }

  ::antiphon::testing::TemporaryFolder folder_;
  std::shared_ptr<const FrameStore> store_;
  MinibatchOptions options_;
};

TEST_F(SequenceMinibatchTest, RowsAreTimeMajorAndCarryTheFramesAround) {
  const TimeContext needed{3, 2, 1};
  for (const bool carry : {true, false}) {
    options_.carry_state = carry;
    const auto pool = Pool(needed);
    const std::vector<size_t> owner = UtteranceOfFrame();
    Matrix frame(1, store_->feat_dim());
    MinibatchStream stream(pool, 0, 0);
    while (const Minibatch* m = stream.Next()) {
      ASSERT_NE(m->sequences, nullptr);
      const SequenceLayout& layout = *m->sequences;
      ASSERT_EQ(m->features.rows(), (layout.frames + 5) * layout.streams);
      ASSERT_EQ(std::ssize(m->pdf_ids), layout.frames * layout.streams);
      for (int s = 0; s < layout.streams; ++s) {
        const int length = layout.lengths[static_cast<size_t>(s)];
        if (length == 0) continue;
        const size_t u = owner[static_cast<size_t>(m->frame_ids[static_cast<size_t>(s)])];
        const auto& utterance = store_->utterances()[u];
        const auto first = static_cast<int>(m->frame_ids[static_cast<size_t>(s)] - utterance.first_frame);
        for (int t = 0; t < layout.frames; ++t) {
          const auto row = static_cast<size_t>(t * layout.streams + s);
          EXPECT_EQ(m->frame_ids[row], t < length ? utterance.first_frame + first + t : -1);
          EXPECT_EQ(m->weights[row], t < length ? utterance.weight : 0);
          if (t < length) {
            EXPECT_EQ(m->pdf_ids[row], store_->PdfId(u, first + t));
          }
        }
        for (int t = 0; t < layout.frames + 5; ++t) {
          store_->ReadFrames(u, std::clamp(first + t - 3, 0, utterance.num_frames - 1), frame);
          for (int c = 0; c < store_->feat_dim(); ++c) EXPECT_EQ(m->features(t * layout.streams + s, c), frame(0, c));
        }
      }
    }
  }
}

TEST_F(SequenceMinibatchTest, ACarryingStreamSaysWholeUtterancesOneAfterAnother) {
  const auto pool = Pool();
  std::map<int, int64_t> next;  // frame that each stream must go on with
  int64_t frames = 0;
  std::set<int64_t> begun;
  MinibatchStream stream(pool, 0, 2);
  while (const Minibatch* m = stream.Next()) {
    const SequenceLayout& layout = *m->sequences;
    ASSERT_EQ(layout.streams, 8);
    for (int s = 0; s < layout.streams; ++s) {
      const int length = layout.lengths[static_cast<size_t>(s)];
      if (length == 0) continue;
      const int64_t id = m->frame_ids[static_cast<size_t>(s)];
      if (layout.Begins(s)) {
        EXPECT_TRUE(begun.insert(id).second);
        EXPECT_TRUE(std::any_of(store_->utterances().begin(), store_->utterances().end(),
                                [&](const auto& u) { return u.first_frame == id; }));
      } else {
        EXPECT_EQ(id, next[s]);
      }
      next[s] = id + length;
      frames += length;
    }
  }
  EXPECT_EQ(frames, store_->num_frames());
  EXPECT_EQ(begun.size(), store_->utterances().size());
}

TEST_F(SequenceMinibatchTest, StreamsEndAtAboutTheSameTime) {
  const auto pool = Pool();
  int64_t longest = 0;
  for (const auto& u : store_->utterances()) longest = std::max<int64_t>(longest, (u.num_frames + 9) / 10);
  int64_t chunks = 0;
  for (const auto& u : store_->utterances()) chunks += (u.num_frames + 9) / 10;
  EXPECT_LE(pool->num_minibatches(0), chunks / 8 + longest);
}

TEST_F(SequenceMinibatchTest, ShuffledChunksOfLikeLengthGoTogetherAndComeInAnotherOrderEachEpoch) {
  options_.carry_state = false;
  const auto pool = Pool();
  std::vector<int64_t> orders[2];
  for (const int64_t epoch : {0, 1}) {
    MinibatchStream stream(pool, 0, epoch);
    int64_t rows = 0;
    int64_t frames = 0;
    while (const Minibatch* m = stream.Next()) {
      rows += std::ssize(m->pdf_ids);
      frames += m->num_frames;
      orders[epoch].push_back(m->frame_ids[0]);
      for (int s = 0; s < m->sequences->streams; ++s) EXPECT_TRUE(m->sequences->Begins(s));
    }
    EXPECT_EQ(frames, store_->num_frames());
    EXPECT_LT(static_cast<double>(rows), 1.2 * static_cast<double>(frames));
  }
  EXPECT_NE(orders[0], orders[1]);
}

TEST_F(SequenceMinibatchTest, OutputsForEveryThirdFrameBeginAtMultiplesOfThree) {
  options_.chunk_frames = 12;
  for (const bool carry : {true, false}) {
    options_.carry_state = carry;
    const auto pool = Pool({1, 1, 3});
    std::set<int64_t> seen;
    MinibatchStream stream(pool, 0, 0);
    while (const Minibatch* m = stream.Next()) {
      ASSERT_EQ(m->features.rows(), (3 * m->sequences->frames + 2) * m->sequences->streams);
      EXPECT_EQ(pool->Frames(0, 0, m->index), m->num_frames);
      for (const int64_t id : m->frame_ids) {
        if (id >= 0) {
          EXPECT_TRUE(seen.insert(id).second);
        }
      }
    }
    std::set<int64_t> expected;
    for (const auto& u : store_->utterances()) {
      for (int t = 0; t < u.num_frames; t += 3) expected.insert(u.first_frame + t);
    }
    EXPECT_EQ(seen, expected);
  }
}

TEST_F(SequenceMinibatchTest, OutputsBeginAtAnotherFrameInEachEpochUntilAllAreLearnt) {
  options_.chunk_frames = 12;
  for (const bool carry : {true, false}) {
    for (const bool widths : {false, true}) {
      if (carry && widths) continue;
      options_.carry_state = carry;
      options_.other_chunk_frames = widths ? std::vector<int>{9} : std::vector<int>{};
      const auto pool = Pool({1, 1, 3});
      const std::vector<size_t> owner = UtteranceOfFrame();
      std::set<int64_t> seen;
      for (int64_t epoch = 0; epoch < 3; ++epoch) {
        MinibatchStream stream(pool, 0, epoch);
        while (const Minibatch* m = stream.Next()) {
          for (const int64_t id : m->frame_ids) {
            if (id < 0) continue;
            const auto& utterance = store_->utterances()[owner[static_cast<size_t>(id)]];
            const int64_t frame = id - utterance.first_frame;
            EXPECT_EQ(frame % 3, epoch < utterance.num_frames ? epoch : 0);
            seen.insert(id);
          }
          for (int s = 0; s < m->sequences->streams; ++s) {
            if (m->chunks[static_cast<size_t>(s)].num_frames == 0) continue;
            EXPECT_EQ(m->sequences->Begins(s), !carry || m->chunks[static_cast<size_t>(s)].first < 3);
          }
        }
      }
      if (!widths) {
        EXPECT_EQ(std::ssize(seen), store_->num_frames());
      }
    }
  }
  options_.other_chunk_frames = {};
  options_.shift_outputs = false;
  const auto pool = Pool({1, 1, 3});
  EXPECT_EQ(pool->num_minibatches(1), pool->num_minibatches(0));
  MinibatchStream stream(pool, 0, 1);
  while (const Minibatch* m = stream.Next()) {
    for (const Chunk& chunk : m->chunks) EXPECT_EQ(chunk.first % 3, 0);
  }
}

// What chain models learn from: chunks of the widths asked for, one width to a minibatch, from many speakers, with real
// frames around them.
TEST_F(SequenceMinibatchTest, ChunksOfOneWidthCarryTheFramesAroundThem) {
  options_.chunk_frames = 20;
  options_.other_chunk_frames = {14, 30};  // 21, 15 and 30 with the stride
  options_.minibatch = 168;                // 8 chunks of the first width
  options_.carry_state = false;
  const TimeContext needed{7, 5, 3};
  const auto pool = Pool(needed);
  Matrix frame(1, store_->feat_dim());
  std::map<size_t, std::set<int>> seen;
  std::set<int> widths;
  int64_t chunks = 0, whole = 0;
  std::set<int32_t> speakers;
  for (const int64_t epoch : {0, 1}) {
    MinibatchStream stream(pool, 0, epoch);
    seen.clear();
    while (const Minibatch* m = stream.Next()) {
      const SequenceLayout& layout = *m->sequences;
      ASSERT_EQ(std::ssize(m->chunks), layout.streams);
      EXPECT_LE(layout.frames * 3 * layout.streams, 168);
      int widest = 0;
      for (int s = 0; s < layout.streams; ++s) {
        const Chunk& chunk = m->chunks[static_cast<size_t>(s)];
        const auto& utterance = store_->utterances()[chunk.utterance];
        if (epoch == 0 && m->index == 0) speakers.insert(utterance.speaker);
        ++chunks;
        widest = std::max(widest, chunk.num_frames);
        EXPECT_EQ(layout.lengths[static_cast<size_t>(s)], (chunk.num_frames + 2) / 3);
        for (int t = 0; t < chunk.num_frames; ++t) {
          EXPECT_TRUE(seen[chunk.utterance].insert(chunk.first + t).second) << "chunks overlap";
        }
        for (int t = 0; t < needed.InputFrames(layout.frames); ++t) {
          store_->ReadFrames(chunk.utterance, std::clamp(chunk.first + t - 7, 0, utterance.num_frames - 1), frame);
          for (int c = 0; c < store_->feat_dim(); ++c) {
            ASSERT_EQ(m->features(t * layout.streams + s, c), frame(0, c)) << "the frames around are not real";
          }
        }
      }
      widths.insert(layout.frames * 3);
      for (const Chunk& chunk : m->chunks) whole += chunk.num_frames > (widest <= 15 ? 0 : widest <= 21 ? 15 : 21);
    }
  }
  // But for what is shorter than the shortest width, or lacks frames at its end.
  EXPECT_TRUE(widths.contains(15) && widths.contains(21) && widths.contains(30));
  EXPECT_EQ(whole, chunks) << "a chunk stands among wider ones";
  EXPECT_GT(speakers.size(), 3u);
}

// Of all rows; of none in the last step of the worker that has no minibatch left.
std::span<const std::byte> Bytes(ConstMatrixView m) {
  return std::as_bytes(std::span(m.data(), static_cast<size_t>(m.size())));
}

TEST_F(SequenceMinibatchTest, AnEpochOfWidthsGoesOnInTheMiddleToTheBit) {
  options_.chunk_frames = 20;
  options_.other_chunk_frames = {14, 30};
  options_.minibatch = 120;
  options_.carry_state = false;
  for (const Distribution distribution : {Distribution::kPool, Distribution::kShares}) {
    options_.distribution = distribution;
    const auto pool = Pool({2, 2, 3}, 2);
    MinibatchStream whole(pool, 1, 4);
    std::vector<Matrix> features;
    while (const Minibatch* m = whole.Next()) features.push_back(Matrix(ConstMatrixView(m->features)));
    ASSERT_GT(features.size(), 4u);
    MinibatchStream rest(Pool({2, 2, 3}, 2), 1, 4, 3);
    for (size_t step = 3; step < features.size(); ++step) {
      const Minibatch* m = rest.Next();
      ASSERT_NE(m, nullptr);
      ASSERT_EQ(m->features.rows(), features[step].rows());
      EXPECT_TRUE(std::ranges::equal(Bytes(m->features), Bytes(features[step])));
    }
  }
}

TEST_F(SequenceMinibatchTest, RefusesPlansThatCannotBe) {
  EXPECT_THROW(Pool({}, 2), UsageError);  // nobody keeps an utterance
  options_.distribution = Distribution::kShares;
  EXPECT_NO_THROW(Pool({}, 2));
  EXPECT_THROW(Pool({0, 0, 3}), UsageError);
  options_.other_chunk_frames = {7};
  EXPECT_THROW(Pool({0, 0, 3}), UsageError);  // states are carried on
  options_.carry_state = false;
  EXPECT_NO_THROW(Pool({0, 0, 3}));
  options_.chunk_frames = 0;
  EXPECT_THROW(Pool({0, 0, 3}), UsageError);
  options_.other_chunk_frames.clear();
  EXPECT_THROW(Pool({1, 0, 1}), UsageError);
}

}  // namespace
}  // namespace antiphon::data
