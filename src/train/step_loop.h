// The steps of an epoch where every rank reads its own minibatches: in step with the others, each its part of one
// common order, or from data of its own.
//
// Internal to src/train. Threads: one, and those of the minibatch stream. Errors: Diverged; Cancelled after saving,
// IoError if that cannot be; those of the strategy.
#pragma once

#include <cstdint>
#include <memory>

#include "data/minibatch_pool.h"
#include "train/run_saver.h"
#include "train/training_step.h"

namespace antiphon::train {

class StepLoop {
 public:
  StepLoop(RunParts& run, RunSaver& saver) : run_(run), saver_(saver), step_(run) {}

  /// The rest of the current epoch.
  void RunEpoch();

 private:
  std::unique_ptr<data::MinibatchStream> OpenStream();
  data::Minibatch* Take(data::MinibatchStream& stream);
  StepPlace Place();
  Rendezvous::Decision ReachAgreement();
  void WaitForEndOfEpoch();

  RunParts& run_;
  RunSaver& saver_;
  TrainingStep step_;
  int active_workers_ = 1;  // that take part in the step under way
};

}  // namespace antiphon::train
