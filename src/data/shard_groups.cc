#include "data/shard_groups.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/random.h"

namespace antiphon::data::internal {
namespace {

// Of random numbers.
constexpr uint64_t kShardStream = (uint64_t{1} << 62) + 3;
// Readers' numbers of pools; those of others are smaller.
constexpr uint64_t kReadersPerPool = 1 << 16;
std::atomic<uint64_t> next_pool = 1;

std::vector<size_t> ShardsOf(const FrameStore& store, std::span<const size_t> utterances) {
  std::vector<bool> used(store.num_shards(), false);
  for (const size_t u : utterances) used[store.ShardOf(u)] = true;
  std::vector<size_t> shards;
  for (size_t s = 0; s < used.size(); ++s) {
    if (used[s]) shards.push_back(s);
  }
  return shards;
}

size_t GroupOf(const ShareOrder& order, size_t block) {
  const auto after = std::upper_bound(order.group_block.begin(), order.group_block.end(), block);
  const auto group = static_cast<size_t>(after - order.group_block.begin()) - 1;
  return std::min(group, order.group_shards.size() - 1);
}

double Gigabytes(uint64_t bytes) { return static_cast<double>(bytes) / 1e9; }

}  // namespace

std::vector<ShardGroup> GroupShards(const FrameStore& store, std::span<const size_t> utterances, int at_once,
                                    uint64_t seed) {
  // Who needs some of the shards only goes through them in the order of who needs all.
  std::vector<size_t> shards(store.num_shards());
  std::iota(shards.begin(), shards.end(), size_t{0});
  Rng(seed, kShardStream).Shuffle(std::span(shards));
  const std::vector<size_t> used = ShardsOf(store, utterances);
  std::erase_if(shards, [&](size_t shard) { return !std::binary_search(used.begin(), used.end(), shard); });
  const auto most = static_cast<size_t>(at_once);
  std::vector<ShardGroup> groups((shards.size() + most - 1) / most);
  std::vector<size_t> group_of(store.num_shards());
  for (size_t i = 0; i < shards.size(); ++i) {
    // Of n groups, number g begins with shard ⌈size·g/n⌉.
    const size_t g = i * groups.size() / shards.size();
    group_of[shards[i]] = g;
    groups[g].shards.push_back(shards[i]);
  }
  for (const size_t u : utterances) groups[group_of[store.ShardOf(u)]].utterances.push_back(u);
  return groups;
}

void GroupRuns(const FrameStore& store, ShareOrder& order) {
  for (size_t b = 0; b < order.blocks.size(); ++b) {
    const size_t shard = store.ShardOf(order.blocks[b].utterance);
    if (!order.group_shards.empty() && order.group_shards.back().front() == shard) continue;
    order.group_block.push_back(b);
    order.group_shards.push_back({shard});
  }
  order.group_block.push_back(order.blocks.size());
}

void GroupAll(const FrameStore& store, std::span<const size_t> utterances, ShareOrder& order) {
  order.group_block = {0, order.blocks.size()};
  order.group_shards = {ShardsOf(store, utterances)};
}

void RequireRoom(const FrameStore& store, std::span<const size_t> utterances, const MinibatchOptions& options) {
  if (!store.is_remote()) return;
  std::vector<uint64_t> sizes;
  for (const size_t shard : ShardsOf(store, utterances)) sizes.push_back(store.ShardBytes(shard));
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  const auto bytes_of = [&](size_t count) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < std::min(count, sizes.size()); ++i) bytes += sizes[i];
    return bytes;
  };
  const auto at_once = static_cast<size_t>(!options.shuffle ? 1 : options.shards_at_once);
  const uint64_t needed = bytes_of(at_once == 0 ? sizes.size() : at_once);
  const uint64_t limit = store.cache_limit_bytes();
  if (needed <= limit) return;
  size_t fitting = 0;
  while (fitting < sizes.size() && bytes_of(2 * (fitting + 1)) <= limit) ++fitting;
  const std::string advice =
      fitting > 0 ? fmt::format("set data.shards-at-once to {} (while as many are read, the next are fetched)", fitting)
                  : fmt::format("set data.cache-limit-gb to {:.3g} at least, for two of the largest shards",
                                Gigabytes(2 * sizes.front()) * 1.001);
  Throw<UsageError>(
      "{} of the store '{}' are read together, {:.3f} GB, but its cache may hold {:.3f} GB (data.cache-limit-gb): {}",
      at_once == 0 ? fmt::format("all {} shards", sizes.size()) : fmt::format("{} shard(s)", at_once),
      store.folder().string(), Gigabytes(needed), Gigabytes(limit), advice);
}

ShardSchedule::ShardSchedule(const FrameStore& store, size_t num_shares)
    : store_(store), reader_(next_pool.fetch_add(1) * kReadersPerPool), places_(num_shares) {}

ShardSchedule::~ShardSchedule() {
  for (size_t share = 0; share < places_.size(); ++share) store_.FetchAhead(reader_ + share, {});
}

void ShardSchedule::Reach(int64_t epoch, size_t share, const ShareOrder& order, size_t before, size_t now) {
  if (order.group_shards.empty()) return;
  const Place place{epoch, GroupOf(order, before), GroupOf(order, now)};
  const std::lock_guard lock(mutex_);
  Place& at = places_[share];
  const auto key = [](const Place& p) { return std::tuple(p.epoch, p.first, p.last); };
  if (key(at) == key(place)) return;
  // A reader that is a little behind the others.
  if (at.epoch == place.epoch && key(place) < key(at) && place.last + 1 >= at.last) return;
  at = place;
  std::vector<size_t> shards;
  for (size_t g = place.first; g <= std::min(place.last + 1, order.group_shards.size() - 1); ++g) {
    shards.insert(shards.end(), order.group_shards[g].begin(), order.group_shards[g].end());
  }
  store_.FetchAhead(reader_ + share, shards);
}

}  // namespace antiphon::data::internal
