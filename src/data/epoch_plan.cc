#include "data/epoch_plan.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/random.h"
#include "data/partition.h"

namespace antiphon::data::internal {
namespace {

// Fewer frames in a worker's shuffle buffer would make its minibatches resemble single utterances.
constexpr int64_t kLeastShareWindow = 16384;

std::vector<Block> CutBlocks(const FrameStore& store, std::span<const size_t> utterances, int32_t length) {
  std::vector<Block> blocks;
  for (const size_t u : utterances) {
    const int32_t frames = store.utterances()[u].num_frames;
    for (int32_t first = 0; first < frames; first += std::min(length, frames - first)) {
      blocks.push_back({static_cast<uint32_t>(u), first, std::min(length, frames - first)});
    }
  }
  return blocks;
}

void CutWindows(int64_t window_frames, ShareOrder& order) {
  int64_t in_window = 0;
  order.window_block.push_back(0);
  order.window_frame.push_back(0);
  for (size_t b = 0; b < order.blocks.size(); ++b) {
    in_window += order.blocks[b].count;
    if (in_window < window_frames && b + 1 < order.blocks.size()) continue;
    order.window_block.push_back(b + 1);
    order.window_frame.push_back(order.window_frame.back() + in_window);
    in_window = 0;
  }
  order.num_frames = order.window_frame.back();
}

// As many whole chunks as fit into `minibatch` frames, at least one.
void CutChunkMinibatches(int64_t minibatch, ShareOrder& order) {
  int64_t frames = 0;
  for (size_t b = 0; b < order.blocks.size(); ++b) {
    const int64_t count = order.blocks[b].count;
    if (b == 0 || frames + count > minibatch) {
      order.minibatch_block.push_back(b);
      frames = 0;
    }
    frames += count;
  }
  order.num_minibatches = std::ssize(order.minibatch_block);
  order.minibatch_block.push_back(order.blocks.size());
}

ShareOrder PlanShare(std::vector<Block> blocks, const MinibatchOptions& options, uint64_t seed, int num_shares) {
  ShareOrder order;
  order.blocks = std::move(blocks);
  order.seed = seed;
  if (options.shuffle) Rng(seed, 0).Shuffle(std::span(order.blocks));
  const int64_t share = options.shuffle_frames / num_shares;
  CutWindows(num_shares == 1 ? share : std::max(share, std::min<int64_t>(kLeastShareWindow, options.shuffle_frames)),
             order);
  if (options.chunk_frames > 0) {
    CutChunkMinibatches(options.minibatch, order);
  } else {
    order.num_minibatches = (order.num_frames + options.minibatch - 1) / options.minibatch;
  }
  return order;
}

std::vector<std::vector<size_t>> DealUtterances(const FrameStore& store, std::span<const size_t> utterances,
                                                int world_size, uint64_t seed) {
  std::vector<PartitionItem> items;
  for (const size_t u : utterances) {
    const FrameStore::Utterance& utterance = store.utterances()[u];
    items.push_back({utterance.utt_id, utterance.num_frames, store.speakers()[static_cast<size_t>(utterance.speaker)]});
  }
  std::vector<std::vector<size_t>> parts = Partition(items, world_size, seed);
  for (std::vector<size_t>& part : parts) {
    for (size_t& i : part) i = utterances[i];
  }
  return parts;
}

}  // namespace

std::vector<std::vector<size_t>> DealShards(const FrameStore& store, std::span<const size_t> utterances,
                                            int world_size) {
  std::vector<PartitionItem> shards(store.num_shards());
  for (size_t s = 0; s < shards.size(); ++s) shards[s].id = fmt::format("{:08}", s);
  for (const size_t u : utterances) shards[store.ShardOf(u)].size += store.utterances()[u].num_frames;
  const auto used = std::count_if(shards.begin(), shards.end(), [](const PartitionItem& s) { return s.size > 0; });
  if (used < world_size) {
    Throw<UsageError>(
        "data.distribution 'shards' deals whole shards, but '{}' has {} with training data for {} workers: make the "
        "store with a smaller --shard-mib",
        store.folder().string(), used, world_size);
  }
  std::vector<size_t> worker_of(shards.size());
  const auto parts = Partition(shards, world_size, 0);
  for (size_t worker = 0; worker < parts.size(); ++worker) {
    for (const size_t s : parts[worker]) worker_of[s] = worker;
  }
  std::vector<std::vector<size_t>> dealt(parts.size());
  for (const size_t u : utterances) dealt[worker_of[store.ShardOf(u)]].push_back(u);
  return dealt;
}

void FillWindow(const ShareOrder& order, size_t window, bool shuffle, std::vector<FrameRef>& frames) {
  frames.clear();
  for (size_t b = order.window_block[window]; b < order.window_block[window + 1]; ++b) {
    const Block& block = order.blocks[b];
    for (int32_t t = 0; t < block.count; ++t) frames.push_back({block.utterance, block.first + t});
  }
  if (shuffle) Rng(order.seed, window + 1).Shuffle(std::span(frames));
}

std::vector<ShareOrder> PlanEpoch(const FrameStore& store, std::span<const size_t> utterances,
                                  const MinibatchOptions& options, uint64_t seed, int64_t epoch, int world_size) {
  const uint64_t epoch_seed = MixSeed(seed, static_cast<uint64_t>(epoch));
  const int32_t block = options.chunk_frames > 0 ? options.chunk_frames : options.block_frames;
  std::vector<ShareOrder> shares;
  if (options.distribution == "pool") {
    shares.push_back(PlanShare(CutBlocks(store, utterances, block), options, epoch_seed, 1));
    return shares;
  }
  const auto parts = options.distribution == "shards" ? DealShards(store, utterances, world_size)
                                                      : DealUtterances(store, utterances, world_size, epoch_seed);
  for (std::vector<size_t> chosen : parts) {
    // Without shuffling the order of the store holds within a share, too.
    if (!options.shuffle) std::sort(chosen.begin(), chosen.end());
    shares.push_back(
        PlanShare(CutBlocks(store, chosen, block), options, MixSeed(epoch_seed, shares.size() + 1), world_size));
  }
  return shares;
}

}  // namespace antiphon::data::internal
