// Where the workers of a run live: `parallel.world` chooses who carries the ranks.
//
//   "threads"    a thread per worker, in this process or spread over the processes that mpirun or Slurm started; each
//                gets its share of its process's `threads` to compute with
//   "simulated"  a cluster as the table `cluster` describes it (comm/cluster.h); one worker computes at a time, with
//                all `threads`, and time is virtual
#pragma once

#include <functional>
#include <optional>

#include "base/config.h"
#include "comm/communicator.h"
#include "comm/process_group.h"
#include "comm/simulated_world.h"

namespace antiphon::train {

/// Runs body once per worker of `parallel.workers` that lives in this process. Errors as ProcessGroup::RunRanks. What
/// became of virtual time, if the world is simulated.
std::optional<comm::SimulationReport> RunWorkers(const Config& parallel, const Config& cluster, int threads,
                                                 comm::ProcessGroup& group,
                                                 const std::function<void(comm::Communicator&)>& body);

}  // namespace antiphon::train
