// One rank of a training run: the parts that hold its data, model, checkpoints and position, and the operations between
// which the Trainer chooses.
//
// Internal to src/train. Threads: one. Errors: as trainer.h; Diverged for what the guards find.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "optim/schedule.h"
#include "parallel/surviving_communicator.h"
#include "report/progress.h"
#include "train/divergence_guard.h"
#include "train/kept_models.h"
#include "train/model_replica.h"
#include "train/rendezvous.h"
#include "train/replica_evaluation.h"
#include "train/run_checkpoints.h"
#include "train/run_data.h"
#include "train/run_state.h"
#include "train/step_order.h"
#include "train/timed.h"
#include "train/trainer.h"

namespace antiphon::train {

class Worker {
 public:
  Worker(const TrainingTask& task, const TrainOptions& options, parallel::SurvivingCommunicator& comm);

  // Beginnings.
  void StartAnew();
  /// False if there is none.
  bool LoadNewestCheckpoint();
  /// Instead of StartAnew: loads the newest checkpoint of a pre-training that was broken off. False if there is none.
  bool LoadPretraining();
  /// That checkpoint's file, until FinishPretraining.
  const std::optional<std::filesystem::path>& broken_pretraining() const { return broken_pretraining_; }
  /// Goes back to the newest checkpoint, lowers the rates and forgets the optimiser's momentum.
  void LoadCheckpointAfterFailure(const Position& failed, int fallbacks);

  /// Lets the strategy begin; after pre-training.
  void StartStrategy();
  /// From now on lost workers are survived, where strategy and communicator can. Collective.
  void GoOnWithoutLost();

  /// The rest of the current epoch. Throws Diverged; Cancelled after saving.
  void RunEpoch();
  /// All replicas hold the model to evaluate. Throws Diverged.
  void EndSteps();
  /// Minibatches came back from a lost worker: the epoch goes on.
  bool has_returned() const { return !order_.returned().empty(); }
  void NextEpoch(bool stop) { state_.NextEpoch(stop); }
  /// After an epoch that is saved, with several ranks: throws Cancelled on all if one was asked to stop.
  void StopIfAsked();

  /// Loss on the held-out set, the same on all ranks. The final one takes all frames and counts confusions.
  EvaluationResult EvaluateHeldOut(bool final);
  /// Gathers batch-normalisation statistics anew from training data.
  void RefreshStatistics(int64_t frames_of_all = 200000);
  void RememberBest() { kept_.RememberBest(network()); }
  void RestoreBest();
  /// Averages of models that all ranks have (train/kept_models.h). Collective.
  size_t CountAverages() const;
  void SwapInAverage(size_t k);
  /// Between two steps. Copies the state; it is on the disk after FinishWriting, or before the next one is begun.
  void WriteCheckpoint();
  /// The checkpoint that was begun last is on all ranks' disks. Collective; IoError if that failed.
  void FinishWriting() { checkpoints_.Finish(); }
  /// The same for this rank alone, before it gives up.
  void WaitForWriting() const { checkpoints_.Wait(); }
  /// The same in the middle of pre-training, after `step` of its steps; `add_state` adds what the stage under way
  /// needs.
  void WritePretrainCheckpoint(int64_t step, const std::function<void(SafetensorsWriter&)>& add_state);
  /// Removes the checkpoints of pre-training, once the epochs have one.
  void FinishPretraining();
  /// What is to be done after a step of pre-training; the same on all ranks.
  Rendezvous::Decision AgreeOnRequest(int64_t step) { return rendezvous_.InStep(step); }
  /// What to say to who asked to stop `where`.
  std::string CancelledMessage(const std::string& where) const;

  void LogEpoch(const nn::LossResult& held_out, double rate, bool accepted) {
    state_.LogEpoch(held_out, rate, accepted, strategy());
  }
  void LogFinish(const TrainingSummary& summary) { state_.LogFinish(summary); }
  /// How well the side task's classes can still be told apart; nothing without a side task. On one rank.
  void ProbeSideTask(TrainingSummary& summary) const { evaluation_.ProbeSideTask(summary); }
  TrainingSummary Summary() { return state_.Summary(strategy()); }
  std::vector<std::string> DescribePlan() const;
  /// Collective; rank 0 gets them.
  std::vector<float> LogPriors() { return evaluation_.LogPriors(); }
  /// For the next step.
  double LearningRate() const { return schedule_.LearningRate(Progress()); }

  nn::Network& network() { return replica_.network(); }
  /// Null if every rank holds the whole model in network().
  const parallel::ModelParts* parts() const { return replica_.parts(); }
  const nn::Network& outline() const { return replica_.outline(); }
  /// As ModelReplica::Save. Collective.
  uint64_t SaveModel(nn::Model model, const std::filesystem::path& path) {
    return replica_.Save(std::move(model), path);
  }
  const data::MinibatchPool& pool() const { return *data_.pool; }
  /// Null: learns by frames.
  const SequenceTask* sequence() const { return data_.sequence.get(); }
  std::shared_ptr<const data::MinibatchPool> shared_pool() const { return data_.pool; }
  optim::Schedule& schedule() { return schedule_; }
  parallel::Strategy& strategy() { return replica_.strategy(); }
  TargetMaker& targets() { return replica_.targets(); }
  RunLog& log() { return state_.log(); }
  const Position& position() const { return state_.position; }
  const std::vector<size_t>& train_utterances() const { return data_.train_utterances; }

 private:
  /// Writes nothing that is lost, and throws Cancelled.
  [[noreturn]] void Stop();
  std::function<bool(std::string_view)> SavedByFirst();
  bool IsOfAnotherExperiment(const std::filesystem::path& file) const;
  void LoadCheckpoint(const std::filesystem::path& file);
  void FoldCheckpoint(const CheckpointFolder::OtherRun& other);
  void FoldPosition(const std::vector<SafetensorsReader>& ranks);
  void RequireSameExperiment(const SafetensorsReader& reader) const;
  std::unique_ptr<data::MinibatchStream> OpenStream();
  double Progress() const;
  // Of the progress bar.
  std::string EpochTitle() const;
  report::ProgressSink Sink() const;
  void RunRounds();
  void RunRound(report::Progress& progress);
  /// `mask_step` tells minibatches apart over the whole run; `index` as StepInput::minibatch.
  void Step(const data::Minibatch& minibatch, int64_t mask_step, int64_t index = -1);
  void Account(const parallel::StepOutput& output);
  bool ReachAgreement();
  bool WaitForEndOfEpoch();
  int64_t TakeInStep();
  void TakeLoss(const parallel::Loss& loss);
  void BeginWriting();

  const TrainingTask& task_;
  const TrainOptions& options_;
  parallel::SurvivingCommunicator& comm_;
  DropoutSchedule dropout_;
  optim::Schedule schedule_;

  RunData data_;
  ModelReplica replica_;
  ReplicaEvaluation evaluation_;
  RunCheckpoints checkpoints_;
  Rendezvous rendezvous_;
  DivergenceGuard guard_;
  KeptModels kept_;
  RunState state_;

  StepOrder order_;          // of workers in step
  int active_workers_ = 1;   // that take part in the step under way
  bool after_loss_ = false;  // no checkpoint since
  std::optional<std::filesystem::path> broken_pretraining_;
};

}  // namespace antiphon::train
