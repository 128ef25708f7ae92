// What each worker of a run has counted, as the others know it: it is not to go when a worker is lost.
//
// Workers tell each other at meetings. Between two of them, those in step know which minibatches each one takes; of
// workers that take when they are free, what a lost one counted since the last meeting goes with it. Where losses are
// not survived, Meet sends nothing. Threads: one. Errors: PeerError.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "train/checkpoint.h"

namespace antiphon::train {

class WorkerCounts {
 public:
  struct Count {
    int64_t frames = 0;
    int64_t bytes_sent = 0;
  };

  explicit WorkerCounts(comm::Communicator& comm) : comm_(comm) {}

  /// `position`: where this worker stands; a loss that is found meanwhile may change it. Collective.
  void Meet(const Position& position);
  bool known() const { return !known_.empty(); }
  /// Worker `worker` takes so many frames.
  void Take(size_t worker, int64_t frames) {
    if (worker < known_.size()) known_[worker].frames += frames;
  }
  /// The sums of lost workers; the others are numbered anew.
  Count Lose(std::span<const int> workers);
  /// Until the next meeting nothing is known: all go back to a checkpoint.
  void Forget() { known_.clear(); }

 private:
  comm::Communicator& comm_;
  std::vector<Count> known_;  // by worker; empty: nothing
};

}  // namespace antiphon::train
