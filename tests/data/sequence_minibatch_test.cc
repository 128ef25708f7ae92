// Minibatches of several streams of consecutive frames.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

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

TEST_F(SequenceMinibatchTest, RefusesPlansThatCannotBe) {
  EXPECT_THROW(Pool({}, 2), UsageError);  // nobody keeps an utterance
  options_.distribution = "shares";
  EXPECT_NO_THROW(Pool({}, 2));
  EXPECT_THROW(Pool({0, 0, 3}), UsageError);
  options_.chunk_frames = 0;
  EXPECT_THROW(Pool({1, 0, 1}), UsageError);
}

}  // namespace
}  // namespace antiphon::data
