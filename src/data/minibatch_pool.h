// Minibatches of an epoch: shuffled, each frame exactly once, the same for every run, restartable at any minibatch.
//
// An epoch's order is a pure function of (seed, epoch): utterances are cut into blocks of at most `block-frames`
// frames, the blocks are permuted, and the frames of each following `shuffle-frames` worth of blocks (a window) are
// permuted among themselves. A window holds about a thousand random blocks from all speakers, so a minibatch differs
// from one of a full shuffle only by a slightly raised chance that two of its frames are neighbours, while the disk
// sees whole blocks.
//
// With chunk-frames > 0 a minibatch holds minibatch/chunk-frames streams of consecutive frames instead
// (base/sequence_layout.h), for networks that look at several frames or carry a state. Either chunks of all utterances
// are permuted, those of about the same length going together; or, with carry-state, the utterances of a share are
// dealt to its streams, longest first (data/partition.h), and every stream says one after another, a chunk per
// minibatch, so that a recurrent layer goes on where it was. Chunks that are shorter than a minibatch's longest are
// padded: weight 0, frame id −1.
//
// With other-chunk-frames too, each utterance is cut into chunks of the given widths (data/chunk_cut.h), and a
// minibatch holds chunks of one width: what chain models learn from. A network that gives an output for every K-th
// frame gets its outputs at frames 0, K, 2K, … of each utterance in epoch 0, at 1, K + 1, … in epoch 1, and so on:
// after K epochs every frame has been learnt from.
//
// Of a live store (data/live_features.h), whose features are made while they are read, blocks are whole utterances, and
// chunks are of the utterances of a window, too: what a window needs is made behind the training of the one before, and
// forgotten behind its own. Three windows of coded features are held at most: before, now, next.
//
// With shards-at-once = G, the above happens within groups of G shards (data/shard_groups.h), one after another, so
// that a machine needs only these at hand.
//
// Distribution over workers: "pool": one order for all; worker r of N takes the minibatches r, r + N, … (synchronous),
// or whoever is free takes the next (parallel/minibatch_ledger.h). "shares": utterances are divided by data/partition.h
// anew in each epoch and every worker shuffles its own share. "shards": whole shards are dealt to the workers once and
// for all, so that each machine needs but those of its workers. "auto" is "pool" here: who knows the method chooses
// (train/data_share.h). Any N sees the same multiset of frames.
//
// Shapes: features [B, spliced dim]; B = minibatch, smaller in the last one of an epoch (or share). In streams,
// features have rows for all frames that the outputs need, and pdf-ids, weights and frame ids are those of the outputs.
// Threads: MinibatchPool is safe from any thread; a MinibatchStream belongs to one consumer.
// Errors: UsageError for impossible options; InputError from the store, thrown where the consumer waits.
// Source: algorithms reference 1.21; Kaldi's nnet3-shuffle-egs for the buffer size.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/sequence_layout.h"
#include "base/time_context.h"
#include "data/distribution.h"
#include "data/feature_maker.h"
#include "data/frame_store.h"
#include "math/matrix.h"

namespace antiphon::data {

struct MinibatchOptions {
  int minibatch = 256;
  int left_context = 5;
  int right_context = 5;
  Distribution distribution = Distribution::kAuto;
  int block_frames = 256;
  int shuffle_frames = 1 << 18;
  int chunk_frames = 0;
  std::vector<int> other_chunk_frames;
  bool shift_outputs = true;
  bool carry_state = true;
  int prefetch = 4;
  bool shuffle = true;
  int shards_at_once = 0;
  ShardCacheOptions cache;
  VariationOptions augment;
  int feature_threads = 2;
  template <class V>
  void Visit(V& v) {
    v("minibatch", minibatch, Range{1, 1 << 20}, "frames per gradient");
    v("left-context", left_context, Range{0, 1000}, "frames spliced on before the current one");
    v("right-context", right_context, Range{0, 1000}, "frames spliced on after the current one");
    VisitEnum(v, "distribution", distribution, kDistributions,
              "one order for all workers, a balanced share of the utterances for each, or whole shards for each, of "
              "which a machine needs but its own; auto: pool, but shards for parallel.method admm, where there are "
              "enough of them, and shares of a live store");
    v("block-frames", block_frames, Range{1, 1 << 20},
      "consecutive frames that enter the shuffle buffer together; of a live store, whole utterances do");
    v("shuffle-frames", shuffle_frames, Range{1, 1 << 28}, "frames in the shuffle buffer");
    v("chunk-frames", chunk_frames, Range{0, 1 << 20},
      "consecutive frames kept together, of as many utterances side by side as a minibatch holds; 0: single frames");
    v("other-chunk-frames", other_chunk_frames, Range{1, 1 << 20},
      "further widths of chunks: with any, each chunk has chunk-frames or one of these (or the next multiples of the "
      "network's stride), so that utterances are covered with least waste, and a minibatch holds chunks of one width; "
      "without: chunks of about equal length, up to chunk-frames");
    v("shift-outputs", shift_outputs,
      "of a network that gives an output for every K-th frame: begin at frame 0 … K - 1 of every utterance in turn, "
      "from epoch to epoch; false: always at frame 0");
    v("carry-state", carry_state,
      "with chunks and recurrent layers: an utterance's chunks follow one another, each going on in the state that the "
      "last one left; false: chunks are shuffled, and start from zero");
    v("prefetch", prefetch, Range{0, 1024}, "minibatches prepared ahead by a thread of their own; 0: none");
    v("shuffle", shuffle, "false: frames in the order of the store, for evaluation");
    v("shards-at-once", shards_at_once, Range{0, 1 << 20},
      "shards that are read and shuffled together, so that a cache need not hold more than these and the next ones: an "
      "epoch takes the shards in groups of so many, anew drawn; 0: all");
    cache.Visit(v);
    v("feature-threads", feature_threads, Range{0, 1024},
      "of a live store: threads that make features ahead, as far as the arithmetic leaves time; 0: none, whoever needs "
      "features makes them");
    v.Group("augment", augment);
  }
};

/// What a stream of a minibatch says: frames of one utterance, of which every stride-th has an output, from the first
/// one on.
struct Chunk {
  size_t utterance = 0;  // index in the store
  int32_t first = 0;
  int32_t num_frames = 0;  // 0: the stream says nothing
};

/// One minibatch. Views are valid until the stream's next call or the buffer's next Fill.
struct Minibatch {
  int64_t index = 0;                          // in the epoch's order (of the share, for "shares")
  int64_t num_frames = 0;                     // to be learnt from: B less padding
  MatrixView features;                        // [B, spliced dim]; the consumer may overwrite it
  std::span<const int32_t> pdf_ids;           // [B]
  std::span<const float> weights;             // [B]
  std::span<const int64_t> frame_ids;         // [B], as in FrameStore
  const SequenceLayout* sequences = nullptr;  // null for single frames
  std::span<const Chunk> chunks = {};         // of each stream; empty for single frames
  double fullness = 1;                        // as MinibatchPool::Fullness has it
};

/// Memory of one minibatch, reused.
class MinibatchBuffer {
 public:
  Minibatch minibatch;

 private:
  friend class MinibatchPool;
  Matrix features_;
  std::vector<int32_t> pdf_ids_;
  std::vector<float> weights_;
  std::vector<int64_t> frame_ids_;
  SequenceLayout layout_;
  std::vector<Chunk> chunks_;
  std::vector<uint8_t> begins_;
  std::vector<int32_t> lengths_;
};

/// Per-column x → (x − mean)·scale after splicing; empty: none. Length: feat_dim (repeated for each context frame) or
/// spliced dim.
struct InputNormalisation {
  std::vector<float> mean;
  std::vector<float> scale;
};

/// Utterances of another kind among the others, for "pool": all over the run, or in its last part only. Each stands
/// `repeat` times in every epoch that has any.
struct Mixing {
  std::vector<size_t> utterances;
  int repeat = 1;
  double tail = 1.0;  // share of the run, counted in the others' frames, that is the last part; 1: the whole run
  int epochs = 1;     // of the run
};

class MinibatchPool {
 public:
  /// `utterances`: the part of the store to train on; empty: all but those of `mixing`. `needed`: the frames that an
  /// output needs, in chunks.
  MinibatchPool(std::shared_ptr<const FrameStore> store, MinibatchOptions options, uint64_t seed, int world_size = 1,
                std::vector<size_t> utterances = {}, const InputNormalisation& normalisation = {},
                TimeContext needed = {}, Mixing mixing = {});
  ~MinibatchPool();

  int spliced_dim() const;
  /// Without those mixed in.
  int64_t num_frames() const;
  /// Of an epoch's order, of all workers, those mixed in as often as they stand there.
  int64_t num_frames(int64_t epoch) const;
  /// Share of the mixed-in frames in each of `parts` equal parts of an epoch's order.
  std::vector<double> MixedShares(int64_t epoch, int parts) const;
  int world_size() const;
  const MinibatchOptions& options() const;
  /// Whether the store lies on a server.
  bool is_remote() const;

  /// What a worker reads in the course of the run, by index in the store.
  std::vector<size_t> UtterancesOf(int rank) const;
  /// Those of the shards that it reads first: all, if all shards are read together.
  std::vector<size_t> FirstUtterancesOf(int rank) const;

  /// Minibatches of one epoch: of the common order ("pool") or of worker `rank` ("shares").
  int64_t num_minibatches(int64_t epoch, int rank = 0) const;
  /// How much of the usual frames a minibatch of an epoch's order has: 1, less for the last one; 0 where there is none.
  /// Chunks are of many lengths anyway: 1.
  double Fullness(int64_t epoch, int rank, int64_t index) const;
  /// What Minibatch::num_frames of it will be; 0 where there is none.
  int64_t Frames(int64_t epoch, int rank, int64_t index) const;
  /// Steps of a synchronous epoch: the number that the worker with most minibatches takes. A worker that has none left
  /// in the last step gets an empty one (B = 0).
  int64_t steps_per_epoch(int64_t epoch) const;

  /// Fills `buffer` with minibatch `index` of an epoch's order. A pure function of its arguments and of (seed,
  /// options).
  void Fill(int64_t epoch, int rank, int64_t index, MinibatchBuffer& buffer) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// One of the common order of an epoch ("pool").
struct MinibatchId {
  int64_t epoch = 0;
  int64_t index = 0;
  auto operator<=>(const MinibatchId&) const = default;
};

/// What one of `stride` workers takes of an epoch's common order ("pool"): minibatches first + offset, first + offset +
/// stride, …; with an offset of stride or more, as many empty ones. Those of `before` stand in front of the first.
struct Stripe {
  int64_t epoch = 0;
  int64_t first = 0;
  int offset = 0;
  int stride = 1;
  std::vector<MinibatchId> before = {};
};

/// The minibatches of one synchronous worker, prepared ahead by a thread of its own.
class MinibatchStream {
 public:
  MinibatchStream(std::shared_ptr<const MinibatchPool> pool, const Stripe& stripe);
  /// Starts at step `first_step` of `epoch`: how training resumes, bit-identically.
  MinibatchStream(std::shared_ptr<const MinibatchPool> pool, int rank, int64_t epoch, int64_t first_step = 0);
  ~MinibatchStream();

  /// The next minibatch (possibly with no rows, see steps_per_epoch); nullptr after the epoch's last step.
  Minibatch* Next();
  /// Steps handed out so far in the epoch: what `first_step` must be to go on behind them.
  int64_t step() const;
  /// Seconds that Next spent waiting for data so far.
  double stall_seconds() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace antiphon::data
