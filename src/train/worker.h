// One rank of a training run: its replica, data, optimiser, strategy, schedule and position, and the operations between
// which the Trainer chooses.
//
// Internal to src/train. Threads: one. Errors: as trainer.h; Diverged for what the guards find.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "parallel/strategy.h"
#include "parallel/surviving_communicator.h"
#include "train/background_write.h"
#include "train/checkpoint.h"
#include "train/data_share.h"
#include "train/evaluate.h"
#include "train/run_log.h"
#include "train/sequence_task.h"
#include "train/side_speech.h"
#include "train/step_order.h"
#include "train/targets.h"
#include "train/timed.h"
#include "train/trainer.h"

namespace antiphon::train {

/// A guard fired; the model in memory is not to be used any more. With several ranks it is thrown on all of them at the
/// same place.
class Diverged : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

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
  void NextEpoch(bool stop);
  /// After an epoch that is saved, with several ranks: throws Cancelled on all if one was asked to stop.
  void StopIfAsked();

  /// Loss on the held-out set, the same on all ranks. The final one takes all frames and counts confusions.
  EvaluationResult EvaluateHeldOut(bool final);
  /// Gathers batch-normalisation statistics anew from training data.
  void RefreshStatistics(int64_t frames_of_all = 200000);
  void RememberBest();
  void RestoreBest();
  bool has_average() const { return position_.averaged > 0; }
  void SwapInAverage();
  /// Between two steps. Copies the state; it is on the disk after FinishWriting, or before the next one is begun.
  void WriteCheckpoint();
  /// The checkpoint that was begun last is on all ranks' disks. Collective; IoError if that failed.
  void FinishWriting();
  /// The same for this rank alone, before it gives up.
  void WaitForWriting() const { writing_.Wait(); }
  /// The same in the middle of pre-training, after `step` of its steps; `add_state` adds what the stage under way
  /// needs.
  void WritePretrainCheckpoint(int64_t step, const std::function<void(SafetensorsWriter&)>& add_state);
  /// Removes the checkpoints of pre-training, once the epochs have one.
  void FinishPretraining();
  /// What is to be done after a step of pre-training; the same on all ranks.
  struct Request {
    bool stop = false;
    bool save = false;
  };
  Request AgreeOnRequest(int64_t step);
  /// What to say to who asked to stop `where`.
  std::string CancelledMessage(const std::string& where) const;

  void LogEpoch(const nn::LossResult& held_out, double rate, bool accepted);
  void LogFinish(const TrainingSummary& summary);
  /// How well the side task's classes can still be told apart; nothing without a side task. On one rank.
  void ProbeSideTask(TrainingSummary& summary) const;
  TrainingSummary Summary();
  std::vector<std::string> DescribePlan() const;
  /// Collective; rank 0 gets them.
  std::vector<float> LogPriors();
  /// For the next step.
  double LearningRate() const { return schedule_.LearningRate(Progress()); }

  nn::Network& network() { return network_; }
  /// Null if every rank holds the whole model in network().
  const parallel::ModelParts* parts() const { return parts_.get(); }
  const nn::Network& outline() const { return outline_; }
  /// Writes network(), put together from all ranks' parts, with what else `model` holds (only rank 0's counts); returns
  /// the whole network's hash. Collective.
  uint64_t SaveModel(nn::Model model, const std::filesystem::path& path);
  const data::MinibatchPool& pool() const { return *pool_; }
  /// Null: learns by frames.
  const SequenceTask* sequence() const { return sequence_.get(); }
  std::shared_ptr<const data::MinibatchPool> shared_pool() const { return pool_; }
  optim::Schedule& schedule() { return schedule_; }
  parallel::Strategy& strategy() { return *strategy_; }
  TargetMaker& targets() { return *targets_; }
  RunLog& log() { return *log_; }
  const Position& position() const { return position_; }
  const std::vector<size_t>& train_utterances() const { return train_utterances_; }

 private:
  void Describe();
  void RequireFrames() const;
  void Build(std::unique_ptr<parallel::ModelParts> parts);
  void BuildSideTask();
  void RequireMemory();
  void SplitData();
  EvaluationData ToEvaluate(std::shared_ptr<const data::FrameStore> store, std::vector<size_t> utterances) const;
  EvaluationResult EvaluateTogether(EvaluationData data, const EvaluationRequest& request);
  EvaluationResult EvaluateShare(const EvaluationData& data, const EvaluationRequest& request);
  /// Of the ranks that hold a replica together one speaks for all.
  bool speaks() const { return !parts_ || parts_->position(comm_.rank()) + 1 == parts_->ranks(); }
  void NormalizeInput();
  /// Writes nothing that is lost, and throws Cancelled.
  [[noreturn]] void Stop();
  std::optional<std::filesystem::path> NewestCheckpoint(const CheckpointFolder& folder);
  SafetensorsReader OpenCheckpoint(const std::filesystem::path& file);
  std::function<bool(std::string_view)> SavedByFirst() const;
  bool IsOfAnotherExperiment(const std::filesystem::path& file) const;
  void LoadCheckpoint(const std::filesystem::path& file);
  void FoldCheckpoint(const CheckpointFolder::OtherRun& other);
  void FoldPosition(const std::vector<SafetensorsReader>& ranks);
  void RequireSameExperiment(const SafetensorsReader& reader) const;
  void LoadBest(const SafetensorsReader& reader);
  bool BestIsCurrent();
  std::vector<float> MeanPosteriors();
  std::unique_ptr<data::MinibatchStream> OpenStream() const;
  double Progress() const;
  void RunRounds();
  void RunRound(report::Progress& progress);
  /// `mask_step` tells minibatches apart over the whole run; `index` as StepInput::minibatch.
  void Step(const data::Minibatch& minibatch, int64_t mask_step, int64_t index = -1);
  void Account(const parallel::StepOutput& output);
  void Guard(const parallel::StepOutput& output);
  std::string FindDivergence(const parallel::StepOutput& output);
  void AgreeOnDivergence();
  bool ReachAgreement();
  // Of workers that do not go in step.
  struct Meeting {
    int64_t step = 0;  // at which it is held: that of the worker who was farthest
    bool stop = false;
    bool save = false;
    bool all_at_end = false;  // of the epoch
  };
  bool WantsMeeting(bool& told);
  Meeting Meet(bool told, bool at_end);
  bool ReachMeeting();
  bool HoldMeeting();
  bool WaitForEndOfEpoch();
  void AverageStep();
  int64_t TakeInStep();
  void TakeLoss(const parallel::Loss& loss);
  void BeginWriting();
  void DrawWritingNumber();
  void RefreshStatisticsTogether(int64_t frames_of_all);
  /// Sums over all ranks.
  std::vector<double> SumOfAll(const std::vector<double>& mine);
  struct Totals {
    nn::LossResult loss;
    double new_frames = 0;
    double frames = 0;  // of the run
    double bytes_sent = 0;
  };
  Totals Sum(const nn::LossResult& loss, int64_t frames);
  void CountBytes();
  void LogSteps(double rate);
  bool CheckpointDue(int64_t step) const;
  std::string Note() const;
  std::string CancelledMessage() const;

  const TrainingTask& task_;
  const TrainOptions& options_;
  parallel::SurvivingCommunicator& comm_;
  Distribution distribution_;
  DropoutSchedule dropout_;
  CheckpointFolder checkpoints_;
  CheckpointFolder pretraining_;
  BackgroundWrite writing_;
  uint64_t writing_number_ = 0;  // of the checkpoint written last; the same on all ranks, and never drawn twice
  std::optional<std::filesystem::path> broken_pretraining_;

  std::vector<size_t> train_utterances_;
  std::vector<size_t> held_out_utterances_;
  bool held_out_by_speaker_ = true;
  std::shared_ptr<const data::FrameStore> held_out_store_;
  std::shared_ptr<const data::MinibatchPool> pool_;

  nn::Network outline_;                          // of the whole model
  std::unique_ptr<parallel::ModelParts> parts_;  // null: every rank holds the whole
  nn::Network network_;                          // the whole, or this rank's part
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<parallel::Strategy> strategy_;
  std::unique_ptr<TargetMaker> targets_;
  std::unique_ptr<SideSpeech> side_;  // null: no side task
  optim::Schedule schedule_;
  nn::Workspace workspace_;  // for evaluation; the strategy has its own
  std::optional<nn::Network> best_;
  std::vector<float> average_;
  std::shared_ptr<const SequenceTask> sequence_;  // null: learns by frames
  int active_workers_ = 1;                        // that take part in the step under way
  std::string divergence_;                        // what this rank's guard found and not all ranks know yet
  std::optional<PhoneMap> phones_;

  Position position_;
  StepOrder order_;                 // of workers in step
  std::optional<Meeting> meeting_;  // on the way to it
  bool after_loss_ = false;         // no checkpoint since
  std::unique_ptr<RunLog> log_;
  std::chrono::steady_clock::time_point last_checkpoint_;
  double log_interval_seconds_ = 0;
  double log_arithmetic_seconds_ = 0;
  int64_t log_frames_ = 0;
  nn::LossResult branch_seen_;  // of branches that learn beside a sequence criterion, since the last record
  int64_t bytes_counted_ = 0;   // of comm_, in position_ already
  double epoch_staleness_ = 0;  // sum over steps since the last epoch record
  int64_t epoch_staleness_steps_ = 0;
};

}  // namespace antiphon::train
