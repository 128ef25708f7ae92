// Where a run stands, and what it tells of itself: the position that checkpoints keep, the log, and what was counted
// since the last record.
//
// What all ranks together learned and sent is summed where they are at the same step; elsewhere a rank tells its own.
// Threads: one. Errors: those of the log and of the communicator.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "comm/communicator.h"
#include "parallel/strategy.h"
#include "train/checkpoint.h"
#include "train/rank_times.h"
#include "train/run_log.h"
#include "train/side_speech.h"
#include "train/trainer.h"
#include "train/worker_counts.h"

namespace antiphon::train {

class RunState {
 public:
  RunState(std::filesystem::path folder, comm::Communicator& comm, RunLog::Listener listener)
      : folder_(std::move(folder)), comm_(comm), log_(folder_, std::move(listener)), times_(comm) {}

  Position position;

  /// Goes on behind what the position remembers of the files, and counts time from here on. Rank 0 writes; the others
  /// keep silent.
  void OpenLog();
  RunLog& log() { return log_; }

  RankTimes& times() { return times_; }

  /// A step's output; `frames` of speech come on top.
  void Add(const parallel::StepOutput& output);
  void AddFrames(int64_t frames);
  /// What lost workers had counted.
  void Inherit(const WorkerCounts::Count& theirs) {
    position.frames += theirs.frames;
    position.bytes_sent += theirs.bytes_sent;
  }
  /// Of branches that learn beside a sequence criterion.
  void AddBranch(const nn::LossResult& seen) { branch_seen_ += seen; }
  /// Brings position.bytes_sent up to date.
  void CountBytes();
  /// To the next epoch, which is the last one's end if `stop`.
  void NextEpoch(bool stop);
  /// Back to an older position: what was written and spent meanwhile did happen.
  void KeepSpent(const Position& failed, int fallbacks);

  /// "loss 1.2345  acc 56.7 %".
  std::string Note() const;
  /// What stands beside the loss in a record.
  struct StepFigures {
    double progress = 0;  // of the run
    double learning_rate = 0;
    double dropout_factor = 0;
  };
  /// `side` null: no auxiliary task.
  void LogSteps(const StepFigures& figures, const parallel::Strategy& strategy, SideSpeech* side);
  void LogEpoch(const nn::LossResult& held_out, double rate, bool accepted, const parallel::Strategy& strategy);
  void LogFinish(const TrainingSummary& summary);
  TrainingSummary Summary(const parallel::Strategy& strategy);

 private:
  struct Totals {
    nn::LossResult loss;
    double new_frames = 0;
    double frames = 0;  // of the run
    double bytes_sent = 0;
  };
  Totals Sum(const nn::LossResult& loss, int64_t frames, const parallel::Strategy& strategy);

  std::filesystem::path folder_;
  comm::Communicator& comm_;
  RunLog log_;
  RankTimes times_;
  // Since the last record of steps.
  double seconds_then_ = 0;
  double arithmetic_seconds_then_ = 0;
  int64_t new_frames_ = 0;
  nn::LossResult branch_seen_;
  int64_t bytes_counted_ = 0;  // of comm_, in position already
  // Since the last record of an epoch.
  double staleness_ = 0;  // sum over steps
  int64_t staleness_steps_ = 0;
};

}  // namespace antiphon::train
