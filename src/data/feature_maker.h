// Makes the features of a live store ahead of whoever reads them, varied anew in each epoch.
//
// What an utterance sounds like is a pure function of (seed, epoch, utterance id): who makes it, when, and on how many
// threads changes nothing. All readers of a process that vary alike share one maker, and what it has made for one of
// them, as long as one of them holds it. Its threads have a lower priority than those that compute. A reader that needs
// an utterance which no thread has begun makes it itself.
//
// Memory: coded frames of what is held. Threads: all methods from any. Errors: UsageError for impossible options;
// InputError of a recording, IoError, Cancelled (feat/foreign_sound.h) or std::bad_alloc, thrown where its frames are
// wanted.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/options.h"
#include "data/live_features.h"
#include "feat/augment.h"

namespace antiphon::data {

/// How recordings are varied while they are read. With the defaults they are not.
struct VariationOptions : feat::AugmentOptions {
  double clean_share = 0.0;
  template <class V>
  void Visit(V& v) {
    v("clean-share", clean_share, Range{0.0, 1.0}, "share of utterances that an epoch leaves as they are");
    VisitAllButSpeeds(v);
  }
  bool any() const;
};

class FeatureMaker {
 public:
  /// Of an utterance in one epoch.
  struct Made;
  using Handle = std::shared_ptr<Made>;

  FeatureMaker(const LiveFeatures& features, const VariationOptions& variation, int num_threads, uint64_t seed);
  ~FeatureMaker();
  FeatureMaker(const FeatureMaker&) = delete;

  /// Has them made in this order, after what was asked for before. One whose handles are all gone is not made.
  std::vector<Handle> Ask(int64_t epoch, std::span<const uint32_t> utterances);
  /// Its coded frames, as soon as they are there.
  const char* Frames(const Handle& made);

 private:
  bool TakeNext(Handle& made);
  void Make(Made& made);
  void Work();

  const LiveFeatures& features_;
  const double clean_share_;
  const uint64_t seed_;
  std::optional<feat::Augmenter> augmenter_;  // nullopt: unchanged
  std::mutex mutex_;
  std::condition_variable wanted_, made_;
  std::deque<std::weak_ptr<Made>> queue_;
  std::map<std::pair<int64_t, uint32_t>, std::weak_ptr<Made>> known_;  // by epoch and utterance
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace antiphon::data
