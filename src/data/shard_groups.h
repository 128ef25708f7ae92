// Which shards of a store are read together, and telling the store in time which come next.
//
// With data.shards-at-once = G, an epoch goes through the shards in groups of at most G: an order of the shards, drawn
// anew for each epoch, is cut into groups of equal size, and what is shuffled is shuffled within a group. Where frames
// come in the order of the store, they are read shard by shard anyway.
//
// Threads: as said. Errors: UsageError for a cache that cannot hold what is read together.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "data/epoch_plan.h"
#include "data/frame_store.h"
#include "data/minibatch_pool.h"

namespace antiphon::data::internal {

/// The utterances of each group, in the order in which they were given, and the group's shards. A pure function of its
/// arguments.
struct ShardGroup {
  std::vector<size_t> shards;
  std::vector<size_t> utterances;
};
std::vector<ShardGroup> GroupShards(const FrameStore& store, std::span<const size_t> utterances, int at_once,
                                    uint64_t seed);

/// Of an order without shuffling: each run of blocks of one shard is a group.
void GroupRuns(const FrameStore& store, ShareOrder& order);
/// All that is read is one group.
void GroupAll(const FrameStore& store, std::span<const size_t> utterances, ShareOrder& order);

/// Throws if shards of these utterances come through a cache that cannot hold as many as are read together; says how
/// many it holds.
void RequireRoom(const FrameStore& store, std::span<const size_t> utterances, const MinibatchOptions& options);

/// Tells a store which shards the readers of a pool's shares need, from the group of their place on. Threads: any.
class ShardSchedule {
 public:
  ShardSchedule(const FrameStore& store, size_t num_shares);
  ~ShardSchedule();
  ShardSchedule(const ShardSchedule&) = delete;

  /// Block `now` is read, and perhaps those from `before` on.
  void Reach(int64_t epoch, size_t share, const ShareOrder& order, size_t before, size_t now);

 private:
  struct Place {
    int64_t epoch = -1;
    size_t first = 0;
    size_t last = 0;
  };
  const FrameStore& store_;
  uint64_t reader_;
  std::mutex mutex_;
  std::vector<Place> places_;  // by share
};

}  // namespace antiphon::data::internal
