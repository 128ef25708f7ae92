// When the ranks of a run save or stop in the middle of an epoch, or go on with other ranks.
//
// Ranks that go in step agree every so many steps. Those that do not hold meetings: whoever has to save or to stop
// tells the others, who look for that every so many steps. Then all meet: each says which step it has taken, those that
// are behind go on to the latest one, and there, at the same step, everybody saves. Who has come to the end of the
// epoch waits for the others in a meeting too, so that all hold the same meetings. Clocks differ between ranks: the
// first one's decides when a checkpoint is due. Threads: one. Errors: those of the communicator.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "train/train_options.h"
#include "train/workers_request.h"

namespace antiphon::train {

class Rendezvous {
 public:
  Rendezvous(const CheckpointOptions& options, RunRequests& requests, comm::Communicator& comm)
      : options_(options), requests_(requests), comm_(comm) {}

  /// What is to be done between two steps; the same on all ranks.
  struct Decision {
    bool stop = false;
    bool save = false;
    bool diverged = false;  // the guard of a rank fired
    int workers = 0;        // to go on with, if it is to stop for that
  };
  /// Of ranks that go in step, after `step`; `diverged`: this rank's guard fired. Without it nobody is asked.
  Decision InStep(int64_t step, std::optional<bool> diverged = std::nullopt);
  /// Of ranks that do not, after `step` of this one's.
  Decision AtMeeting(int64_t step);
  /// The same for one that has come to the end of its epoch: what to do before it waits again; nothing once all have.
  std::optional<Decision> AtEndOfEpoch(int64_t step);

  /// By steps or by this rank's clock.
  bool Due(int64_t step) const;
  /// A checkpoint was written, or there is nothing to save yet.
  void Saved() { last_save_ = std::chrono::steady_clock::now(); }

 private:
  struct Meeting {
    int64_t step = 0;  // at which it is held: that of the rank that was farthest
    bool stop = false;
    bool save = false;
    int workers = 0;
    bool all_at_end = false;  // of the epoch
  };
  bool BySteps(int64_t step) const { return options_.steps > 0 && step % options_.steps == 0; }
  bool Wanted(int64_t step, bool& told);
  Meeting Meet(int64_t step, bool told, bool at_end);
  Decision Hold();

  const CheckpointOptions& options_;
  RunRequests& requests_;
  comm::Communicator& comm_;
  std::chrono::steady_clock::time_point last_save_;
  std::optional<Meeting> meeting_;  // on the way to it
};

/// Sums over all ranks. Collective.
std::vector<double> SumOfAll(comm::Communicator& comm, const std::vector<double>& mine);
/// What is asked of any rank. Collective.
RunRequests::Asked AskedOfAny(comm::Communicator& comm, const RunRequests::Asked& mine);

}  // namespace antiphon::train
