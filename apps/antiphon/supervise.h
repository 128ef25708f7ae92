// Runs training in a process of its own (or in those that a launcher such as mpirun starts), and starts it again from
// the last checkpoint when it fails.
#pragma once

#include <filesystem>
#include <string>

#include "base/options.h"
#include "command.h"

namespace antiphon::app {

struct SuperviseOptions {
  int restarts = 0;
  std::string launch;
  template <class V>
  void Visit(V& v) {
    v("restarts", restarts, Range{0, 1 << 20},
      "start the run again from its last checkpoint, at most so many times, when it fails (a rank killed, stopped or "
      "unreachable, a machine lost)");
    v("launch", launch,
      "command that starts the run's processes, such as 'mpirun -np 4 --hostfile hosts' or 'srun -n 4'; empty: one "
      "process. Its workers are spread over them");
  }
};

/// Runs `antiphon train --config CONFIG` under `options.launch` until it succeeds, and returns its result (JSON).
/// SIGINT and SIGTERM are passed on, so that the run saves itself. Throws Cancelled then; UsageError if the run was
/// refused; PeerError when the restarts are used up.
std::string SuperviseTraining(const std::filesystem::path& config, bool resume, const SuperviseOptions& options);

}  // namespace antiphon::app
