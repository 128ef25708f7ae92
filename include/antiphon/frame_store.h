// A frame store: features of utterances with one label per frame, as `antiphon store` makes it, and minibatches of it
// in the order in which `antiphon train` reads them.
//
//   const antiphon::FrameStore store("exp/store");
//   antiphon::Minibatches epoch(store, {.minibatch = 256}, /*epoch=*/0);
//   while (auto minibatch = epoch.Next()) Learn(minibatch->features(), minibatch->labels());
//
// The store is mapped: it need not fit in memory. One on a server (http://…, https://…, s3://BUCKET/PREFIX) is fetched
// into a folder of this machine as it is read. Features are normalised as the store was made; frames beyond an
// utterance's ends repeat its first or last one.
//
// Shapes: row by row, one frame per row; frame t with its context is [x(t−left) … x(t+right)]. Labels are pdf-ids.
// Utterances, frames, labels and epochs count from 0. Units: a cache's limit in GB of 10⁹ bytes.
// Ownership: copies of a FrameStore share all, and moving one copies it; Minibatches keep alive what they need of it. A
// Minibatch keeps its own memory, and belongs to whoever holds it; what it refers to lives as long.
// Threads: a FrameStore may be used by many threads at once; of one Minibatches, one calls Next and WaitForNext.
// Errors: antiphon::Error (antiphon/error.h): kInput naming file, utterance and byte of a store that is damaged, or the
// address of what a server does not give, and for places beyond the last utterance; kUsage for settings that cannot be;
// kIo, kCancelled.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "antiphon/export.h"

namespace antiphon {

/// Where the shards of a store on a server are kept.
struct FrameStoreCache {
  std::string folder = {};  // on this machine's own disk; programs may share it
  double limit_gb = 50;     // above which the shards that were not used for longest are removed
};

class ANTIPHON_API FrameStore {
 public:
  struct Utterance {
    std::string utt_id;
    std::string speaker;
    int64_t num_frames = 0;
    float weight = 1.0f;  // multiplies the loss of its frames
  };

  explicit FrameStore(const std::string& folder);
  FrameStore(const std::string& folder, const FrameStoreCache& cache);
  ~FrameStore();
  FrameStore(const FrameStore&);
  FrameStore& operator=(const FrameStore&);

  /// Values per frame, without context.
  int feature_dim() const;
  /// Labels are 0 … num_labels − 1.
  int num_labels() const;
  int64_t num_frames() const;
  const std::vector<Utterance>& utterances() const;
  /// False for speech without alignment, whose labels mean nothing.
  bool labelled() const;
  /// Options of the front end that made the features, as TOML (antiphon/front_end.h); "" if the store does not know it.
  std::string front_end() const;

  /// Of one utterance, by its place in utterances(): frames × feature_dim, and one label per frame.
  std::vector<float> Features(size_t utterance) const;
  std::vector<int32_t> Labels(size_t utterance) const;

  /// Over all frames: how often each label is there, and mean and inverse standard deviation of each feature.
  std::vector<int64_t> CountLabels() const;
  struct Moments {
    std::vector<float> mean;
    std::vector<float> inverse_stddev;
  };
  Moments FeatureMoments() const;

 private:
  friend class Minibatches;
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

struct MinibatchSettings {
  int minibatch = 256;
  int left_context = 5;
  int right_context = 5;
  bool shuffle = true;                  // false: frames in the order of the store
  uint64_t seed = 1;                    // with `epoch`, decides the order
  std::vector<size_t> utterances = {};  // the part of the store to read, by place; empty: all
  int prefetch = 2;                     // minibatches that are prepared while others are in use
  int shards_at_once = 0;               // read and shuffled together, so that a cache need not hold more; 0: all
};

/// B frames; B is settings.minibatch, less in an epoch's last one.
class ANTIPHON_API Minibatch {
 public:
  ~Minibatch();
  Minibatch(Minibatch&&) noexcept;
  Minibatch& operator=(Minibatch&&) noexcept;

  int64_t num_frames() const;
  /// Values per frame, with context.
  int64_t dim() const;
  /// B × dim. The caller may overwrite them.
  std::span<float> features();
  std::span<const int32_t> labels() const;
  std::span<const float> weights() const;
  /// Places of the frames in the store, counted through all utterances.
  std::span<const int64_t> frame_ids() const;

 private:
  friend class Minibatches;
  struct Impl;
  explicit Minibatch(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// One epoch: every frame once, in an order that settings and `epoch` alone decide.
class ANTIPHON_API Minibatches {
 public:
  Minibatches(const FrameStore& store, const MinibatchSettings& settings, int64_t epoch);
  ~Minibatches();
  Minibatches(Minibatches&&) noexcept;
  Minibatches& operator=(Minibatches&&) noexcept;

  /// How many there are in the epoch.
  int64_t size() const;
  /// Nothing after the last one.
  std::optional<Minibatch> Next();
  /// Waits at most so long; whether Next has something to give at once (or the epoch is over).
  bool WaitForNext(std::chrono::milliseconds most);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace antiphon
