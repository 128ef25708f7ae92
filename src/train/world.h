// Where the workers of a run live: `parallel.world` chooses who carries the ranks.
//
//   "threads"    one thread of this process per worker; each gets its share of `threads` for OpenMP
//   "simulated"  a cluster as the table `cluster` describes it (comm/cluster.h); one worker computes at a time, with
//   all
//                `threads`, and time is virtual
#pragma once

#include <functional>
#include <optional>

#include "base/config.h"
#include "comm/communicator.h"
#include "comm/simulated_world.h"

namespace antiphon::train {

/// Runs body once per worker of `parallel.workers`. What became of virtual time, if the world is simulated.
std::optional<comm::SimulationReport> RunWorkers(const Config& parallel, const Config& cluster, int threads,
                                                 const std::function<void(comm::Communicator&)>& body);

}  // namespace antiphon::train
