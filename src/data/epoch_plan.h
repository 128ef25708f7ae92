// The order of one epoch: which frames (or chunks) stand at which position, for one worker's share or for all.
//
// A plan holds blocks, not frames: its memory is a few bytes per block-frames frames. A window is the part of it whose
// frames are shuffled among themselves, made when a reader reaches it. Both are pure functions of (seed, epoch, rank,
// options).
//
// Threads: a finished plan is read-only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/frame_store.h"
#include "data/minibatch_pool.h"

namespace antiphon::data::internal {

/// Consecutive frames of one utterance.
struct Block {
  uint32_t utterance = 0;
  int32_t first = 0;
  int32_t count = 0;
};

struct FrameRef {
  uint32_t utterance = 0;
  int32_t frame = 0;
};

/// Blocks of one share in their order, and where windows and minibatches begin.
struct ShareOrder {
  std::vector<Block> blocks;
  int64_t num_frames = 0;
  uint64_t seed = 0;                    // for the frames within windows
  std::vector<size_t> window_block;     // first block of each window; one more entry than windows; none for chunks of
                                        // features that are held
  std::vector<int64_t> window_frame;    // first position of each window; likewise
  std::vector<size_t> minibatch_block;  // chunks: first block of each minibatch, and the end; empty for single frames.
                                        // A block is a stream's chunk; one without frames is a stream that has ended.
  int64_t num_minibatches = 0;
  // Where shards are read in groups (data/shard_groups.h): the first block of each, and the end; the group's shards.
  std::vector<size_t> group_block;
  std::vector<std::vector<size_t>> group_shards;
};

/// The frames of window `window`, in the order in which they are handed out. Overwrites `frames`.
void FillWindow(const ShareOrder& order, size_t window, bool shuffle, std::vector<FrameRef>& frames);

/// Utterances per worker: whole shards, so that the workers' numbers of frames are as equal as shards allow; the same
/// in every epoch. UsageError for fewer shards than workers.
std::vector<std::vector<size_t>> DealShards(const FrameStore& store, std::span<const size_t> utterances,
                                            int world_size);

/// Orders of all shares of an epoch (one share for "pool"). `utterances` are sorted by id. Chunks begin at multiples of
/// `stride` frames of their utterance, or so many and as many more as the epoch's grid of outputs is shifted by.
std::vector<ShareOrder> PlanEpoch(const FrameStore& store, std::span<const size_t> utterances,
                                  const MinibatchOptions& options, uint64_t seed, int64_t epoch, int world_size,
                                  int stride = 1, const Mixing& mixing = {});

}  // namespace antiphon::data::internal
