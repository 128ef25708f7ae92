// The processes that carry the ranks of a run: this one alone, or those that mpirun or Slurm started.
//
//   const auto group = ProcessGroup::Join(version);
//   group->RunRanks(8, [&](Communicator& comm) { … });   // 8 ranks, spread evenly: 1 × 8, 2 × 4 or 8 × 1 threads
//
// Each process runs its ranks as threads; what the ranks compute does not depend on how many processes there are
// (communicator.h). Errors: UsageError if fewer ranks than processes, if the program cannot do what it was started for,
// or if the processes run different programs; PeerError for a process that failed or did not answer; PeerLost on
// all that are left if one died and MPI can go on without it (Open MPI 5, mpirun --with-ft ulfm): then
// LeaveOutLostProcesses, and RunRanks again. Threads: one, that of the program.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"

namespace antiphon::comm {

/// Thrown by all ranks together: this world is over, and the processes go on with another one. If a process dies
/// meanwhile, RunRanks throws PeerLost in its place, on all that are left.
class WorldEnds : public Cancelled {
 public:
  using Cancelled::Cancelled;
};

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  /// The processes started together with this one; found by what mpirun and Slurm leave in the environment. `version`
  /// must be the same in all, and so must the program's file. Once per process. Collective.
  static std::unique_ptr<ProcessGroup> Join(std::string_view version);
  /// This process alone, whatever started it.
  static std::unique_ptr<ProcessGroup> Alone();

  /// From 0; process 0 carries rank 0, which writes the run's files.
  virtual int process() const = 0;
  virtual int num_processes() const = 0;
  /// Processes of the group on this machine.
  virtual int processes_on_host() const = 0;
  /// "thread(s) of one process" or "MPI (Open MPI 4.1.4)".
  virtual std::string Describe() const = 0;

  /// Runs body for the ranks of this process and waits for them. Collective; all processes must give the same size.
  virtual void RunRanks(int world_size, const std::function<void(Communicator&)>& body) = 0;
  /// After a PeerLost: the processes that are left become the group. Returns how many were lost. Collective.
  virtual int LeaveOutLostProcesses() = 0;
};

/// First rank of a process; process P's would be the world's size.
int FirstRankOf(int process, int num_processes, int world_size);

/// Number of processes that a launcher says it started; 1 if none did.
int LaunchedProcesses();

/// "Open MPI v4.1.4"; a build without MPI says that it is one.
std::string MpiLibrary();

/// MPI's group; UsageError in a build without MPI. Called by Join.
std::unique_ptr<ProcessGroup> JoinMpi(std::string_view version);

}  // namespace antiphon::comm
