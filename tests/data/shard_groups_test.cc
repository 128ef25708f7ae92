// Reading shard by shard, in groups: every frame once, few shards at a time, an order that only seed, epoch and options
// decide.
#include "data/shard_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>

#include "base/error.h"
#include "store_fixture.h"

namespace antiphon::data {
namespace {

class ShardsAtOnce : public ::testing::Test {
 protected:
  ShardsAtOnce() {
    MakeStore(folder_ / "store", 150, 40, 30, {.shard_mib = 1}, 1600);
    store_ = std::make_shared<const FrameStore>(folder_ / "store");
    for (size_t u = 0; u < store_->utterances().size(); ++u) {
      for (int t = 0; t < store_->utterances()[u].num_frames; ++t) shard_of_frame_.push_back(store_->ShardOf(u));
    }
    options_.minibatch = 200;
    options_.left_context = options_.right_context = 0;
    options_.shuffle_frames = 3000;
    options_.carry_state = false;
  }

  // Frames of one share in their order.
  std::vector<int64_t> Order(int64_t epoch, int world_size = 1, int rank = 0, uint64_t seed = 1) const {
    const MinibatchPool pool(store_, options_, seed, world_size);
    MinibatchBuffer buffer;
    std::vector<int64_t> frames;
    for (int64_t i = 0; i < pool.num_minibatches(epoch, rank); ++i) {
      pool.Fill(epoch, rank, i, buffer);
      for (const int64_t id : buffer.minibatch.frame_ids) {
        if (id >= 0) frames.push_back(id);
      }
    }
    return frames;
  }
  // The most shards that are needed at one place of an order, if each is kept from its first frame to its last.
  size_t MostTogether(const std::vector<int64_t>& frames) const {
    std::map<size_t, size_t> first, last;
    for (size_t i = 0; i < frames.size(); ++i) {
      const size_t shard = shard_of_frame_[static_cast<size_t>(frames[i])];
      first.emplace(shard, i);
      last[shard] = i;
    }
    size_t most = 0;
    for (const auto& [shard, at] : first) {
      most =
          std::max<size_t>(most, static_cast<size_t>(std::count_if(first.begin(), first.end(), [&, at = at](auto& f) {
                             return f.second <= at && last[f.first] >= at;
                           })));
    }
    return most;
  }
  std::vector<size_t> ShardOrder(const std::vector<int64_t>& frames) const {
    std::vector<size_t> order;
    for (const int64_t frame : frames) {
      const size_t shard = shard_of_frame_[static_cast<size_t>(frame)];
      if (std::find(order.begin(), order.end(), shard) == order.end()) order.push_back(shard);
    }
    return order;
  }

  ::antiphon::testing::TemporaryFolder folder_;
  std::shared_ptr<const FrameStore> store_;
  std::vector<size_t> shard_of_frame_;
  MinibatchOptions options_;
};

TEST_F(ShardsAtOnce, HandsOutEachFrameOnceAndFewShardsTogether) {
  ASSERT_GE(store_->num_shards(), 5u);
  std::vector<int64_t> all(static_cast<size_t>(store_->num_frames()));
  std::iota(all.begin(), all.end(), int64_t{0});
  for (const int chunk : {0, 90}) {
    for (const bool carry : {false, true}) {
      for (const int at_once : {1, 2, 3, 100}) {
        options_.chunk_frames = chunk;
        options_.carry_state = carry;
        options_.shards_at_once = at_once;
        std::vector<int64_t> frames = Order(1);
        EXPECT_LE(MostTogether(frames), static_cast<size_t>(at_once)) << "chunks of " << chunk;
        std::sort(frames.begin(), frames.end());
        EXPECT_EQ(frames, all) << "chunks of " << chunk << ", " << at_once << " shards at once";
      }
    }
  }
}

TEST_F(ShardsAtOnce, DrawsTheOrderAnewInEachEpochAndTheSameAgain) {
  options_.shards_at_once = 1;
  const std::vector<int64_t> first = Order(0), second = Order(1);
  EXPECT_EQ(first, Order(0));
  EXPECT_NE(ShardOrder(first), ShardOrder(second));
  EXPECT_NE(ShardOrder(first), ShardOrder(Order(0, 1, 0, 2)));
  // Within a shard, frames are shuffled, too.
  EXPECT_FALSE(std::is_sorted(first.begin(), first.begin() + 200));
}

TEST_F(ShardsAtOnce, WorkersWithSharesOfTheirOwnWalkThroughTheSameShards) {
  options_.distribution = Distribution::kShares;
  options_.shards_at_once = 1;
  std::vector<int64_t> both = Order(0, 2, 0);
  const std::vector<int64_t> other = Order(0, 2, 1);
  std::vector<size_t> first = ShardOrder(both), second = ShardOrder(other);
  // The last shard is small: a share may have nothing of it.
  const auto keep_common = [](std::vector<size_t>& shards, const std::vector<size_t>& others) {
    std::erase_if(shards, [&](size_t s) { return std::find(others.begin(), others.end(), s) == others.end(); });
  };
  keep_common(first, second);
  keep_common(second, first);
  EXPECT_EQ(first, second);
  EXPECT_GE(first.size(), 5U);
  both.insert(both.end(), other.begin(), other.end());
  std::sort(both.begin(), both.end());
  EXPECT_EQ(std::set<int64_t>(both.begin(), both.end()).size(), static_cast<size_t>(store_->num_frames()));
}

TEST_F(ShardsAtOnce, SaysWhatIsReadFirst) {
  options_.shards_at_once = 2;
  const MinibatchPool pool(store_, options_, 1);
  std::set<size_t> shards;
  for (const size_t u : pool.FirstUtterancesOf(0)) shards.insert(store_->ShardOf(u));
  std::vector<size_t> order = ShardOrder(Order(0));
  order.resize(shards.size());
  EXPECT_EQ(shards, std::set<size_t>(order.begin(), order.end()));
  EXPECT_LE(shards.size(), 2u);
}

TEST_F(ShardsAtOnce, SpeechThatIsMixedInIsRefused) {
  options_.shards_at_once = 1;
  Mixing mixing;
  mixing.utterances = {0, 1};
  EXPECT_THROW(MinibatchPool(store_, options_, 1, 1, {}, {}, {}, mixing), UsageError);
}

}  // namespace
}  // namespace antiphon::data
