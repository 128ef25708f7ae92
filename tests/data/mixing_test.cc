// New speech among the old: exact multisets, and where in the run it stands.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "data/minibatch_pool.h"
#include "temporary_folder.h"

namespace antiphon::data {
namespace {

constexpr int kOld = 60, kNew = 6, kFrames = 40, kEpochs = 4;

class Mixed : public ::testing::Test {
 protected:
  Mixed() {
    FrameStoreWriter writer(folder_ / "store", 2, 3);
    for (int u = 0; u < kOld + kNew; ++u) {
      const Matrix features(kFrames, 2);
      writer.Add((u < kOld ? "old" : "new") + std::to_string(100 + u), "s", features, std::vector<int32_t>(kFrames, 1));
    }
    writer.Finish();
    store_ = std::make_shared<const FrameStore>(folder_ / "store");
    for (size_t u = 0; u < store_->utterances().size(); ++u) {
      if (store_->utterances()[u].utt_id.starts_with("new")) mixing_.utterances.push_back(u);
    }
    mixing_.epochs = kEpochs;
    options_.minibatch = 50;
    options_.block_frames = 8;
    options_.left_context = options_.right_context = 0;
  }

  bool IsNew(int64_t frame) const {
    for (const size_t u : mixing_.utterances) {
      const int64_t first = store_->utterances()[u].first_frame;
      if (frame >= first && frame < first + kFrames) return true;
    }
    return false;
  }
  // Padding left out.
  std::vector<int64_t> Order(const MinibatchPool& pool, int64_t epoch) const {
    std::vector<int64_t> order;
    MinibatchBuffer buffer;
    for (int64_t i = 0; i < pool.num_minibatches(epoch); ++i) {
      pool.Fill(epoch, 0, i, buffer);
      std::copy_if(buffer.minibatch.frame_ids.begin(), buffer.minibatch.frame_ids.end(), std::back_inserter(order),
                   [](int64_t id) { return id >= 0; });
    }
    return order;
  }
  MinibatchPool Pool() const { return {store_, options_, 7, 1, {}, {}, {}, mixing_}; }

  testing::TemporaryFolder folder_;
  std::shared_ptr<const FrameStore> store_;
  Mixing mixing_;
  MinibatchOptions options_;
};

// Minibatches of single frames, of shuffled chunks, and of streams that go on in their utterances.
class MixedInEveryOrder : public Mixed, public ::testing::WithParamInterface<std::string> {
 protected:
  MixedInEveryOrder() {
    if (GetParam() == "frames") return;
    options_.chunk_frames = 8;
    options_.minibatch = 32;  // 4 streams
    options_.carry_state = GetParam() == "streams";
  }
};
INSTANTIATE_TEST_SUITE_P(All, MixedInEveryOrder, ::testing::Values("frames", "chunks", "streams"),
                         [](const auto& order) { return order.param; });

TEST_P(MixedInEveryOrder, UniformlyEveryEpochHasTheExactMultiset) {
  mixing_.repeat = 3;
  const MinibatchPool pool = Pool();
  EXPECT_EQ(pool.num_frames(), kOld * kFrames);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    std::map<int64_t, int> times;
    for (const int64_t frame : Order(pool, epoch)) ++times[frame];
    EXPECT_EQ(pool.num_frames(epoch), (kOld + 3 * kNew) * kFrames);
    EXPECT_EQ(times.size(), static_cast<size_t>((kOld + kNew) * kFrames));
    for (const auto& [frame, count] : times) EXPECT_EQ(count, IsNew(frame) ? 3 : 1);
  }
}

TEST_P(MixedInEveryOrder, UniformlyItStandsEverywhereAlike) {
  mixing_.repeat = 4;
  const std::vector<int64_t> order = Order(Pool(), 0);
  // Kolmogorov–Smirnov against the uniform distribution; what stands together counts as one draw: blocks of 8 frames,
  // chunks likewise, in streams whole utterances.
  const double together = GetParam() == "streams" ? kFrames : 8;
  std::vector<double> places;
  for (size_t i = 0; i < order.size(); ++i) {
    if (IsNew(order[i])) places.push_back(static_cast<double>(i) / static_cast<double>(order.size()));
  }
  double largest = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    largest = std::max(largest, std::abs(places[i] - static_cast<double>(i) / static_cast<double>(places.size())));
  }
  EXPECT_LT(largest, 1.63 / std::sqrt(static_cast<double>(places.size()) / together));
}

TEST_P(MixedInEveryOrder, InTheTailNothingNewComesBeforeIt) {
  mixing_.tail = 0.1;  // of 4 epochs: the last 40 % of the last one
  mixing_.repeat = 2;
  options_.shuffle_frames = 1 << 18;  // larger than the tail
  const MinibatchPool pool = Pool();
  for (int epoch = 0; epoch + 1 < kEpochs; ++epoch) {
    const std::vector<int64_t> order = Order(pool, epoch);
    EXPECT_EQ(order.size(), static_cast<size_t>(kOld * kFrames));
    EXPECT_TRUE(std::none_of(order.begin(), order.end(), [&](int64_t f) { return IsNew(f); }));
  }
  const std::vector<int64_t> last = Order(pool, kEpochs - 1);
  std::map<int64_t, int> times;
  for (const int64_t frame : last) ++times[frame];
  for (const auto& [frame, count] : times) EXPECT_EQ(count, IsNew(frame) ? 2 : 1);
  EXPECT_EQ(times.size(), static_cast<size_t>((kOld + kNew) * kFrames));
  const auto first = std::find_if(last.begin(), last.end(), [&](int64_t f) { return IsNew(f); });
  EXPECT_GE(first - last.begin(), std::lround(0.6 * kOld * kFrames));
  EXPECT_LT(first - last.begin(), std::lround(0.7 * kOld * kFrames));
  // In the tail both kinds stand side by side.
  EXPECT_TRUE(std::any_of(first, last.end(), [&](int64_t f) { return !IsNew(f); }));
}

TEST_P(MixedInEveryOrder, TheSharesThatAreDrawnAreThoseOfTheOrder) {
  mixing_.tail = 0.125;
  const MinibatchPool pool = Pool();
  for (const double share : pool.MixedShares(0, 10)) EXPECT_EQ(share, 0);
  const std::vector<double> last = pool.MixedShares(kEpochs - 1, 10);
  ASSERT_EQ(last.size(), 10u);
  EXPECT_EQ(last[0], 0);
  EXPECT_EQ(last[3], 0);
  EXPECT_GT(last[9], 0);
}

TEST_F(Mixed, AStreamGoesOnInItsUtteranceAndEveryUtteranceIsWhole) {
  options_.chunk_frames = 16;
  options_.minibatch = 64;
  mixing_.repeat = 3;
  mixing_.tail = 0.2;
  const MinibatchPool pool = Pool();
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    std::map<int, int64_t> next;  // frame with which each stream must go on
    MinibatchBuffer buffer;
    for (int64_t i = 0; i < pool.num_minibatches(epoch); ++i) {
      pool.Fill(epoch, 0, i, buffer);
      const SequenceLayout& layout = *buffer.minibatch.sequences;
      for (int s = 0; s < layout.streams; ++s) {
        const int length = layout.lengths[static_cast<size_t>(s)];
        if (length == 0) continue;
        const int64_t first = buffer.minibatch.frame_ids[static_cast<size_t>(s)];
        if (layout.Begins(s)) {
          EXPECT_EQ(first % kFrames, 0);
          EXPECT_TRUE(!next.contains(s) || next[s] % kFrames == 0) << "the last utterance was not said to its end";
        } else {
          EXPECT_EQ(first, next[s]);
        }
        next[s] = first + length;
      }
    }
    for (const auto& [stream, frame] : next) EXPECT_EQ(frame % kFrames, 0);
  }
}

TEST_F(Mixed, WithoutNewSpeechNothingChanges) {
  const MinibatchPool plain(store_, options_, 7);
  mixing_.utterances.clear();
  EXPECT_EQ(Order(plain, 1), Order(Pool(), 1));
}

TEST_F(Mixed, IsForTheCommonOrderAlone) {
  options_.distribution = Distribution::kShares;
  EXPECT_THROW(Pool(), UsageError);
}

}  // namespace
}  // namespace antiphon::data
