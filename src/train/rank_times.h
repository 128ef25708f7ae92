// What each rank of a run does with its time, for all to see: which one is slow, and for whom the others wait.
//
// Times are those of the steps since the last record: arithmetic; waiting for messages of other ranks; exchange, which
// is the rest of the communication (encoding, adding, sending); reading, until a minibatch was there. Other is
// evaluation, saving and reporting. Units: seconds by the communicator's clock. Threads: one. Errors: PeerError.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "train/checkpoint.h"
#include "train/run_log.h"

namespace antiphon::train {

class RankTimes {
 public:
  explicit RankTimes(comm::Communicator& comm);

  /// Around each step of the strategy.
  void BeginStep() { waited_before_ = comm_.waited_seconds(); }
  void EndStep();
  /// What is told next begins here.
  void StartAt(const Position& position);

  /// Adds to rank 0's record, as lists by rank as numbered at the start, what came since StartAt, and shares of it to
  /// TensorBoard; then starts anew. Nothing for a single rank; 0 for those that are lost. Collective.
  void Tell(const Position& position, report::MetricsRecord& record, RunLog& log);

 private:
  struct Times {
    double arithmetic = 0;
    double waiting = 0;
    double exchange = 0;
    double reading = 0;
    double other = 0;
  };
  Times Since(const Position& position) const;
  /// By rank as numbered at the start: its times, and behind them how long it waited for each rank.
  std::vector<std::vector<double>> Gather(const Times& mine) const;

  comm::Communicator& comm_;
  int first_rank_;                // as numbered at the start
  std::vector<double> machines_;  // of the ranks as numbered at the start
  std::vector<double> waited_before_;
  std::vector<double> waited_;  // in steps, for each rank as numbered at the start
  Position begin_;
};

}  // namespace antiphon::train
