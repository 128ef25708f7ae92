// One step of training: a minibatch goes to the strategy, and what came of it is counted, guarded and logged.
//
// Internal to src/train. Units: the position's seconds are by the communicator's clock, which is virtual on simulated
// clusters. Threads: one. Errors: those of the strategy; Diverged.
#pragma once

#include <cstdint>

#include "data/minibatch_pool.h"
#include "train/run_parts.h"

namespace antiphon::train {

/// Where a minibatch stands in the run.
struct StepPlace {
  int64_t mask_step = 0;     // tells minibatches apart over the whole run
  int64_t next = 0;          // minibatch of the common order that follows this step
  int64_t minibatch = -1;    // as StepInput::minibatch
  double step_fullness = 1;  // as StepInput::step_fullness
};

class TrainingStep {
 public:
  explicit TrainingStep(RunParts& run) : run_(run), dropout_(run.options.dropout_schedule) {}

  void Run(const data::Minibatch& minibatch, const StepPlace& place);
  /// Of a step that the strategy has finished.
  void Account(const parallel::StepOutput& output);

 private:
  void KeepWithinLimits();

  RunParts& run_;
  DropoutSchedule dropout_;
};

}  // namespace antiphon::train
