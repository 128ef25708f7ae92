// One rank of a training run, put together: its data, model and position (RunParts), checkpoints (RunSaver, RunLoader),
// evaluation, and the loop over minibatches that its strategy takes. What follows what is the Trainer's to say.
//
// Internal to src/train. Threads: one. Errors: as trainer.h; Diverged for what the guards find.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "train/replica_evaluation.h"
#include "train/round_loop.h"
#include "train/run_loader.h"
#include "train/run_parts.h"
#include "train/run_saver.h"
#include "train/step_loop.h"

namespace antiphon::train {

class Worker {
 public:
  /// Collective.
  Worker(const TrainingTask& task, const TrainOptions& options, parallel::SurvivingCommunicator& comm)
      : run_(task, options, comm),
        evaluation_(task, options, comm, run_.data, run_.replica),
        saver_(run_),
        loader_(run_, saver_),
        step_loop_(run_, saver_),
        round_loop_(run_, saver_) {}

  RunParts& run() { return run_; }
  const RunParts& run() const { return run_; }
  RunSaver& saver() { return saver_; }
  RunLoader& loader() { return loader_; }
  const RunLoader& loader() const { return loader_; }
  ReplicaEvaluation& evaluation() { return evaluation_; }
  nn::Network& network() { return run_.network(); }
  parallel::Strategy& strategy() { return run_.strategy(); }
  const Position& position() const { return run_.position(); }
  RunLog& log() { return run_.state.log(); }

  /// Instead of a checkpoint. Removes those that are there.
  void StartAnew();
  /// From now on lost workers are survived, where strategy and communicator can. `take_over`: called on the rank that
  /// becomes the first one because that was lost, before it writes anything. Collective.
  void GoOnWithoutLost(std::function<void()> take_over);

  /// The rest of the current epoch. Throws Diverged; Cancelled after saving.
  void RunEpoch();
  /// All replicas hold the model to evaluate. Throws Diverged.
  void EndSteps();
  /// Minibatches came back from a lost worker: the epoch goes on.
  bool has_returned() const { return !run_.order.returned().empty(); }
  /// After an epoch that is saved: throws Cancelled on all if one was asked to stop, WorkersChanged if others are to go
  /// on.
  void StopIfAsked();

  /// Loss on the held-out set, the same on all ranks. The final one takes all frames and counts confusions.
  EvaluationResult EvaluateHeldOut(bool final);
  /// Gathers batch-normalisation statistics anew from training data.
  void RefreshStatistics(int64_t frames_of_all = 200000);
  void RememberBest() { run_.kept.RememberBest(network()); }
  void RestoreBest();
  /// Averages that all ranks with minibatches have (train/kept_models.h). Collective.
  size_t CountAverages() const;
  void SwapInAverage(size_t k);

  /// What is trained, on what and how, a line each; warns of what is likely a mistake.
  std::vector<std::string> DescribePlan() const;

 private:
  bool TakesMinibatches() const;
  void TakeLoss(const parallel::Loss& loss);

  RunParts run_;
  bool is_first_ = false;  // writes for all
  std::function<void()> take_over_;
  ReplicaEvaluation evaluation_;
  RunSaver saver_;
  RunLoader loader_;
  StepLoop step_loop_;
  RoundLoop round_loop_;
};

}  // namespace antiphon::train
