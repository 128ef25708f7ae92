// What somebody asks of a training under way: to stop, or to go on with another number of workers.
//
// `antiphon resize` leaves the file workers.toml in the run's folder:
//   workers = 6
//   launch = "mpirun -np 6 --hostfile hosts"    of a supervised run; without it the processes are started as before
// Rank 0 looks for it between two steps, once pre-training is finished. Then all ranks agree, save everything as for a
// request to stop, and this part of the run ends; the next one begins with the new number from that checkpoint, so that
// no minibatch is lost and none is learned twice: in the same processes (RunTraining), or in new ones where somebody
// supervises the run, to whom a request is one to stop. Threads: one rank each. Errors: InputError for a damaged file,
// UsageError for a request that cannot be met.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/options.h"
#include "comm/communicator.h"
#include "comm/process_group.h"

namespace antiphon::train {

struct WorkersRequest {
  int workers = 0;
  std::string launch;
  template <class V>
  void Visit(V& v) {
    v("workers", workers, Range{1, 4096}, "workers to go on with");
    v("launch", launch,
      "command that starts the processes from now on, such as 'mpirun -np 6 --hostfile hosts', of a run that was "
      "started with --launch or --restarts; empty: as before");
  }
};

/// Overwrites a request that was not met yet.
void LeaveRequest(const std::filesystem::path& folder, const WorkersRequest& request);
std::optional<WorkersRequest> FindRequest(const std::filesystem::path& folder);
void RemoveRequest(const std::filesystem::path& folder);
/// Removes a request for this number: it is met when the run with so many workers has begun, as a change may be put
/// off by the loss of a rank. What cannot be read stays, to be told of.
void RemoveMetRequest(const std::filesystem::path& folder, int workers);

/// The lock by which the program that starts a run's processes holds its folder.
inline constexpr const char* kSuperviseLock = "supervise.lock";
/// The lock of a run's rank 0.
inline constexpr const char* kTrainLock = "train.lock";

/// This part of the run is saved and over; the next one has so many workers. Thrown on all ranks.
class WorkersChanged : public comm::WorldEnds {
 public:
  WorkersChanged(const std::string& message, int workers) : WorldEnds(message), workers_(workers) {}
  int workers() const { return workers_; }

 private:
  int workers_;
};

class RunRequests {
 public:
  /// `parallel`: the table of the run. `waits_for_epochs`: other numbers of workers can go on at the ends of epochs
  /// alone.
  RunRequests(std::filesystem::path folder, const Config& parallel, bool waits_for_epochs, comm::Communicator& comm);

  struct Asked {
    bool stop = false;
    int workers = 0;  // to go on with; 0: those that there are
    bool any() const { return stop || workers > 0; }
  };
  /// What this rank knows of: the number of workers is rank 0's to know. Looks into the folder at most so often that it
  /// costs nothing.
  Asked Look(bool at_epoch_end = false);
  /// While `true`, nobody looks into the folder: what is asked there waits. A signal to stop does not.
  void PutOff(bool put_off) { put_off_ = put_off; }

 private:
  Asked InFolder();
  std::string WhyNot(const WorkersRequest& request, bool supervised) const;

  std::filesystem::path folder_;
  bool waits_for_epochs_;
  bool one_worker_;
  bool put_off_ = false;
  std::string method_;
  comm::Communicator& comm_;
  std::chrono::steady_clock::time_point last_look_;
  Asked found_;
};

}  // namespace antiphon::train
