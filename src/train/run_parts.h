// What one rank of a training run holds: data, model, schedule and position. The loops, the checkpoints and the
// evaluation work on it.
//
// Internal to src/train. Threads: one. Errors: UsageError and InputError for what does not go together.
#pragma once

#include <string>

#include "optim/schedule.h"
#include "parallel/surviving_communicator.h"
#include "report/progress.h"
#include "train/divergence_guard.h"
#include "train/kept_models.h"
#include "train/model_replica.h"
#include "train/run_data.h"
#include "train/run_state.h"
#include "train/step_order.h"
#include "train/trainer.h"
#include "train/worker_counts.h"

namespace antiphon::train {

struct RunParts {
  /// Opens the data and builds the model. Collective.
  RunParts(const TrainingTask& its_task, const TrainOptions& its_options, parallel::SurvivingCommunicator& its_comm);
  RunParts(const RunParts&) = delete;

  const TrainingTask& task;
  const TrainOptions& options;
  parallel::SurvivingCommunicator& comm;
  optim::Schedule schedule;
  RunData data;
  ModelReplica replica;
  DivergenceGuard guard;
  KeptModels kept;
  RunState state;
  StepOrder order;      // of workers in step
  WorkerCounts counts;  // where losses are survived
  std::string inputs;   // as DescribeInputs

  nn::Network& network() { return replica.network(); }
  parallel::Strategy& strategy() { return replica.strategy(); }
  const data::MinibatchPool& pool() const { return *data.pool; }
  const Position& position() const { return state.position; }
  /// How much of the run is done, as a share.
  double Progress() const;
  /// For the next step.
  double LearningRate() const { return schedule.LearningRate(Progress()); }

  /// Frames of speech in a minibatch of the common order.
  int64_t FramesOf(const data::MinibatchId& minibatch) const;

  /// Of the epoch under way.
  report::Progress ShowProgress(int64_t frames) const;
};

}  // namespace antiphon::train
