// The rounds of an epoch where workers take minibatches from a common pool whenever they are free.
//
// A checkpoint needs all workers between two minibatches, so that an epoch has a round for each.
// Internal to src/train. Threads: one, and one that fills the next minibatch. Errors: UsageError where the data are no
// common pool; Diverged; Cancelled after saving, IoError if that cannot be.
#pragma once

#include <future>

#include "report/progress.h"
#include "train/run_saver.h"
#include "train/training_step.h"

namespace antiphon::train {

class RoundLoop {
 public:
  RoundLoop(RunParts& run, RunSaver& saver) : run_(run), saver_(saver), step_(run) {}

  /// The rest of the current epoch, by a strategy that has rounds. One round at least.
  void RunEpoch();

 private:
  void RunRound(report::Progress& progress);
  void Await(std::future<void>& filled);
  void AccountExchange();
  int64_t Workers() { return run_.strategy().data_share().count; }

  RunParts& run_;
  RunSaver& saver_;
  TrainingStep step_;
};

}  // namespace antiphon::train
