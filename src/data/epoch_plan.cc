#include "data/epoch_plan.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/random.h"
#include "data/chunk_cut.h"
#include "data/partition.h"
#include "data/shard_groups.h"

namespace antiphon::data::internal {
namespace {

// Fewer frames in a worker's shuffle buffer would make its minibatches resemble single utterances.
constexpr int64_t kLeastShareWindow = 16384;
// Of random numbers; windows take those from 1 on.
constexpr uint64_t kMixingStream = uint64_t{1} << 62;
constexpr uint64_t kCutStream = kMixingStream + 2;
constexpr uint64_t kGroupStream = kMixingStream + 16;
constexpr uint64_t kWindowStream = uint64_t{3} << 61;

// Where the outputs of an epoch stand.
struct Grid {
  int32_t stride = 1;
  int32_t shift = 0;
  /// The first frame with an output. What is too short for the shift is learnt without.
  int32_t Begin(int32_t frames) const { return shift < frames ? shift : 0; }
};

std::vector<Block> CutBlocks(const FrameStore& store, std::span<const size_t> utterances, int32_t length,
                             const Grid& grid = {}) {
  std::vector<Block> blocks;
  for (const size_t u : utterances) {
    const int32_t frames = store.utterances()[u].num_frames;
    for (int32_t first = grid.Begin(frames); first < frames; first += std::min(length, frames - first)) {
      blocks.push_back({static_cast<uint32_t>(u), first, std::min(length, frames - first)});
    }
  }
  return blocks;
}

// No window reaches over block `border`, where the last part of a run begins.
void CutWindows(int64_t window_frames, size_t border, ShareOrder& order) {
  int64_t in_window = 0;
  order.window_block.push_back(0);
  order.window_frame.push_back(0);
  for (size_t b = 0; b < order.blocks.size(); ++b) {
    in_window += order.blocks[b].count;
    if (in_window < window_frames && b + 1 < order.blocks.size() && b + 1 != border) continue;
    order.window_block.push_back(b + 1);
    order.window_frame.push_back(order.window_frame.back() + in_window);
    in_window = 0;
  }
  order.num_frames = order.window_frame.back();
}

int NumStreams(const MinibatchOptions& options) { return std::max(1, options.minibatch / options.chunk_frames); }

// Every utterance in as few chunks of at most `length` frames as possible, of about equal length, which are multiples
// of the stride but for the last.
std::vector<Block> CutEvenChunks(const FrameStore& store, std::span<const size_t> utterances, int32_t length,
                                 const Grid& grid) {
  std::vector<Block> blocks;
  for (const size_t u : utterances) {
    const int32_t begin = grid.Begin(store.utterances()[u].num_frames);
    const int32_t frames = store.utterances()[u].num_frames - begin;
    const int32_t units = (frames + grid.stride - 1) / grid.stride;
    const int32_t count = (frames + length - 1) / length;
    for (int32_t i = 0; i < count; ++i) {
      const auto begin_of = [&](int64_t chunk) { return static_cast<int32_t>(units * chunk / count) * grid.stride; };
      const int32_t first = begin_of(i);
      blocks.push_back({static_cast<uint32_t>(u), begin + first, std::min(begin_of(i + 1), frames) - first});
    }
  }
  return blocks;
}

// Every utterance in chunks of the widths that the options name.
std::vector<Block> CutWidths(const FrameStore& store, std::span<const size_t> utterances,
                             const MinibatchOptions& options, uint64_t seed, const Grid& grid) {
  std::vector<int> widths = {options.chunk_frames};
  widths.insert(widths.end(), options.other_chunk_frames.begin(), options.other_chunk_frames.end());
  const ChunkCut cut(widths, grid.stride);
  std::vector<Block> blocks;
  for (size_t i = 0; i < utterances.size(); ++i) {
    const int32_t frames = store.utterances()[utterances[i]].num_frames;
    Rng rng(MixSeed(seed, kCutStream), i);
    for (const ChunkCut::Piece& piece : cut.Cut(grid.Begin(frames), frames, options.shuffle ? &rng : nullptr)) {
      blocks.push_back({static_cast<uint32_t>(utterances[i]), piece.first, piece.count});
    }
  }
  return blocks;
}

// `minibatches`: a list of lists of blocks, in the order in which they are learnt from.
template <class Minibatches>
ShareOrder OrderOf(const Minibatches& minibatches, uint64_t seed) {
  ShareOrder order;
  order.seed = seed;
  for (const auto& minibatch : minibatches) {
    order.minibatch_block.push_back(order.blocks.size());
    for (const Block& block : minibatch) {
      order.blocks.push_back(block);
      order.num_frames += block.count;
    }
  }
  order.num_minibatches = std::ssize(order.minibatch_block);
  order.minibatch_block.push_back(order.blocks.size());
  return order;
}

// As many chunks as fit into `minibatch` frames, padding included, and one at least. Those of about the same length go
// together, so that little is padded; which of them do is left to chance.
ShareOrder PlanChunks(std::vector<Block> blocks, const MinibatchOptions& options, uint64_t seed) {
  constexpr int64_t kMinibatchesPerSort = 64;
  if (options.shuffle) {
    Rng(seed, 0).Shuffle(std::span(blocks));
    const auto group = static_cast<size_t>(kMinibatchesPerSort * NumStreams(options));
    for (size_t first = 0; first < blocks.size(); first += group) {
      const auto begin = blocks.begin() + static_cast<std::ptrdiff_t>(first);
      const auto end = blocks.begin() + static_cast<std::ptrdiff_t>(std::min(first + group, blocks.size()));
      std::stable_sort(begin, end, [](const Block& a, const Block& b) { return a.count > b.count; });
    }
  }
  std::vector<std::vector<Block>> minibatches;
  int64_t longest = 0;
  for (const Block& block : blocks) {
    longest = std::max<int64_t>(longest, block.count);
    if (minibatches.empty() || (std::ssize(minibatches.back()) + 1) * longest > options.minibatch) {
      minibatches.emplace_back();
      longest = block.count;
    }
    minibatches.back().push_back(block);
  }
  if (options.shuffle) Rng(seed, 1).Shuffle(std::span(minibatches));
  return OrderOf(minibatches, seed);
}

// Minibatches of chunks of one width each, all of about as many frames: those of a width are spread evenly over as many
// minibatches as they need.
ShareOrder PlanWidths(std::vector<Block> blocks, const MinibatchOptions& options, uint64_t seed, const Grid& grid) {
  if (options.shuffle) Rng(seed, 0).Shuffle(std::span(blocks));
  std::vector<int> widths = options.other_chunk_frames;
  widths.push_back(options.chunk_frames);
  std::map<int32_t, std::vector<Block>> of_width;
  for (const int width : widths) of_width[ChunkCut({&width, 1}, grid.stride).Rounded(width)];
  // The shortest width that has room: that of a chunk which lacks frames may be a larger one.
  for (const Block& block : blocks) of_width.lower_bound(block.count)->second.push_back(block);
  std::vector<std::span<const Block>> minibatches;
  for (const auto& [width, chunks] : of_width) {
    const auto most = static_cast<size_t>(std::max(1, options.minibatch / width));
    const size_t count = (chunks.size() + most - 1) / most;
    for (size_t i = 0; i < count; ++i) {
      const size_t first = chunks.size() * i / count;
      minibatches.push_back(std::span(chunks).subspan(first, chunks.size() * (i + 1) / count - first));
    }
  }
  if (options.shuffle) Rng(seed, 1).Shuffle(std::span(minibatches));
  return OrderOf(minibatches, seed);
}

// Every stream says its utterances one after another, a chunk per minibatch.
ShareOrder PlanCarriedChunks(const FrameStore& store, std::span<const size_t> utterances,
                             const MinibatchOptions& options, uint64_t seed, const Grid& grid) {
  const int streams = NumStreams(options);
  std::vector<PartitionItem> items;
  for (const size_t u : utterances) {
    const FrameStore::Utterance& utterance = store.utterances()[u];
    items.push_back({utterance.utt_id, (utterance.num_frames + options.chunk_frames - 1) / options.chunk_frames, {}});
  }
  std::vector<std::vector<Block>> chunks;
  size_t longest = 0;
  for (const std::vector<size_t>& part : Partition(items, streams, seed)) {
    std::vector<size_t> chosen;
    for (const size_t i : part) chosen.push_back(utterances[i]);
    chunks.push_back(CutBlocks(store, chosen, options.chunk_frames, grid));
    longest = std::max(longest, chunks.back().size());
  }
  std::vector<std::vector<Block>> minibatches(longest);
  for (size_t m = 0; m < longest; ++m) {
    for (const std::vector<Block>& stream : chunks) minibatches[m].push_back(m < stream.size() ? stream[m] : Block{});
  }
  return OrderOf(minibatches, seed);
}

// When the part of the run begins into which speech is mixed, in epochs after the beginning of this one.
double MixingBegins(const Mixing& mixing, int64_t epoch) {
  return (1 - mixing.tail) * mixing.epochs - static_cast<double>(epoch);
}

// Puts what is mixed in among the blocks of the last part of the run; returns where in this epoch that part begins.
size_t MixIn(std::vector<Block> mixed, const Mixing& mixing, int64_t epoch, uint64_t seed, std::vector<Block>& blocks) {
  int64_t frames = 0;
  for (const Block& block : blocks) frames += block.count;
  const double begin = MixingBegins(mixing, epoch);
  if (begin >= 1) return 0;
  size_t border = 0;
  for (double at = 0; border < blocks.size() && at < begin * static_cast<double>(frames); ++border) {
    at += blocks[border].count;
  }
  for (int i = 0; i < mixing.repeat; ++i) blocks.insert(blocks.end(), mixed.begin(), mixed.end());
  Rng(seed, kMixingStream).Shuffle(std::span(blocks).subspan(border));
  return border;
}

// Frames of a window of one of so many shares.
int64_t WindowFrames(const MinibatchOptions& options, int num_shares) {
  const int64_t share = options.shuffle_frames / num_shares;
  return num_shares == 1 ? share : std::max(share, std::min<int64_t>(kLeastShareWindow, options.shuffle_frames));
}

ShareOrder PlanFrames(std::vector<Block> blocks, const MinibatchOptions& options, uint64_t seed, int num_shares,
                      std::vector<Block> mixed = {}, const Mixing& mixing = {}, int64_t epoch = 0) {
  ShareOrder order;
  order.blocks = std::move(blocks);
  order.seed = seed;
  if (options.shuffle) Rng(seed, 0).Shuffle(std::span(order.blocks));
  const size_t border = mixed.empty() ? 0 : MixIn(std::move(mixed), mixing, epoch, seed, order.blocks);
  CutWindows(WindowFrames(options, num_shares), border, order);
  order.num_minibatches = (order.num_frames + options.minibatch - 1) / options.minibatch;
  return order;
}

ShareOrder PlanAllChunks(const FrameStore& store, std::span<const size_t> utterances, const MinibatchOptions& options,
                         uint64_t seed, const Grid& grid) {
  if (options.carry_state) return PlanCarriedChunks(store, utterances, options, seed, grid);
  if (!options.other_chunk_frames.empty()) {
    return PlanWidths(CutWidths(store, utterances, options, seed, grid), options, seed, grid);
  }
  return PlanChunks(CutEvenChunks(store, utterances, options.chunk_frames, grid), options, seed);
}

void Append(const ShareOrder& more, ShareOrder& order) {
  // The end of the one is where the other begins.
  const auto join = [](const auto& starts, auto offset, auto& all) {
    if (!all.empty()) all.pop_back();
    for (const auto start : starts) all.push_back(offset + start);
  };
  join(more.window_block, order.blocks.size(), order.window_block);
  join(more.window_frame, order.num_frames, order.window_frame);
  join(more.minibatch_block, order.blocks.size(), order.minibatch_block);
  order.blocks.insert(order.blocks.end(), more.blocks.begin(), more.blocks.end());
  order.num_frames += more.num_frames;
  order.num_minibatches += more.num_minibatches;
}

// Chunks of a live store: those of a window are of utterances that no other window needs.
ShareOrder PlanChunkWindows(const FrameStore& store, std::span<const size_t> utterances,
                            const MinibatchOptions& options, uint64_t seed, int64_t window_frames, const Grid& grid) {
  std::vector<size_t> rest(utterances.begin(), utterances.end());
  if (options.shuffle && store.CountFrames(rest) > window_frames) Rng(seed, kWindowStream).Shuffle(std::span(rest));
  ShareOrder order;
  order.seed = seed;
  order.minibatch_block = {0};
  order.window_block = {0};
  for (size_t first = 0, windows = 0; first < rest.size(); ++windows) {
    size_t end = first;
    for (int64_t have = 0; end < rest.size() && have < window_frames; ++end) {
      have += store.utterances()[rest[end]].num_frames;
    }
    const uint64_t window_seed = windows == 0 ? seed : MixSeed(seed, kWindowStream + windows);
    ShareOrder window = PlanAllChunks(store, std::span(rest).subspan(first, end - first), options, window_seed, grid);
    window.window_block = {0, window.blocks.size()};
    Append(window, order);
    first = end;
  }
  return order;
}

ShareOrder PlanGroup(const FrameStore& store, std::span<const size_t> utterances, const MinibatchOptions& options,
                     uint64_t seed, int num_shares, const Grid& grid) {
  if (options.chunk_frames == 0) {
    return PlanFrames(CutBlocks(store, utterances, options.block_frames), options, seed, num_shares);
  }
  if (store.live() == nullptr) return PlanAllChunks(store, utterances, options, seed, grid);
  return PlanChunkWindows(store, utterances, options, seed, WindowFrames(options, num_shares), grid);
}

// Group by group; `shard_seed` is the same for all workers that walk through the same shards.
ShareOrder PlanShare(const FrameStore& store, std::span<const size_t> utterances, const MinibatchOptions& options,
                     uint64_t seed, uint64_t shard_seed, int num_shares, const Grid& grid) {
  if (!options.shuffle || options.shards_at_once == 0) {
    ShareOrder order = PlanGroup(store, utterances, options, seed, num_shares, grid);
    if (!options.shuffle && store.cache_limit_bytes() > 0) {
      // Streams that carry a state read shards all over; that they are wanted lets them go afterwards.
      const bool in_order = options.chunk_frames == 0 || !options.carry_state;
      in_order ? GroupRuns(store, order) : GroupAll(store, utterances, order);
    }
    return order;
  }
  ShareOrder order;
  order.seed = seed;
  for (ShardGroup& group : GroupShards(store, utterances, options.shards_at_once, shard_seed)) {
    order.group_block.push_back(order.blocks.size());
    order.group_shards.push_back(std::move(group.shards));
    const uint64_t group_seed = MixSeed(seed, kGroupStream + order.group_shards.size());
    Append(PlanGroup(store, group.utterances, options, group_seed, num_shares, grid), order);
  }
  order.group_block.push_back(order.blocks.size());
  if (options.chunk_frames == 0) {
    order.num_minibatches = (order.num_frames + options.minibatch - 1) / options.minibatch;
  }
  return order;
}

// The utterances that come before the mixing begins, then the others and what is mixed in: all streams of the one have
// ended when the other begins.
ShareOrder PlanMixedChunks(const FrameStore& store, std::span<const size_t> utterances, const MinibatchOptions& options,
                           uint64_t seed, const Grid& grid, const Mixing& mixing, int64_t epoch) {
  const double begin = MixingBegins(mixing, epoch);
  if (begin >= 1) return PlanGroup(store, utterances, options, seed, 1, grid);
  std::vector<size_t> rest(utterances.begin(), utterances.end());
  Rng(seed, kMixingStream).Shuffle(std::span(rest));
  const auto frames = static_cast<double>(store.CountFrames(rest));
  size_t border = 0;
  for (double at = 0; border < rest.size() && at < begin * frames; ++border) {
    at += store.utterances()[rest[border]].num_frames;
  }
  ShareOrder order = PlanGroup(store, std::span(rest).first(border), options, seed, 1, grid);
  rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(border));
  for (int i = 0; i < mixing.repeat; ++i) {
    rest.insert(rest.end(), mixing.utterances.begin(), mixing.utterances.end());
  }
  Rng(seed, kMixingStream + 1).Shuffle(std::span(rest));
  Append(PlanGroup(store, rest, options, MixSeed(seed, kMixingStream), 1, grid), order);
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
                                  const MinibatchOptions& options, uint64_t seed, int64_t epoch, int world_size,
                                  int stride, const Mixing& mixing) {
  const uint64_t epoch_seed = MixSeed(seed, static_cast<uint64_t>(epoch));
  Grid grid{stride, 0};
  if (options.shuffle && options.shift_outputs) grid.shift = static_cast<int32_t>(epoch % stride);
  std::vector<ShareOrder> shares;
  if (options.distribution == Distribution::kPool) {
    if (mixing.utterances.empty()) {
      shares.push_back(PlanShare(store, utterances, options, epoch_seed, epoch_seed, 1, grid));
    } else if (options.chunk_frames > 0) {
      shares.push_back(PlanMixedChunks(store, utterances, options, epoch_seed, grid, mixing, epoch));
    } else {
      shares.push_back(PlanFrames(CutBlocks(store, utterances, options.block_frames), options, epoch_seed, 1,
                                  CutBlocks(store, mixing.utterances, options.block_frames), mixing, epoch));
    }
    return shares;
  }
  const auto parts = options.distribution == Distribution::kShards
                         ? DealShards(store, utterances, world_size)
                         : DealUtterances(store, utterances, world_size, epoch_seed);
  for (std::vector<size_t> chosen : parts) {
    // Without shuffling the order of the store holds within a share, too.
    if (!options.shuffle) std::sort(chosen.begin(), chosen.end());
    shares.push_back(
        PlanShare(store, chosen, options, MixSeed(epoch_seed, shares.size() + 1), epoch_seed, world_size, grid));
  }
  return shares;
}

}  // namespace antiphon::data::internal
