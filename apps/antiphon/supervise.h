// Runs training in a process of its own (or in those that a launcher such as mpirun starts), and starts it again from
// the last checkpoint when it fails.
#pragma once

#include <filesystem>
#include <string>

#include "pipeline/training_job.h"

namespace antiphon::app {

/// Runs `antiphon train --config CONFIG` under `options.launch` until it succeeds, and returns its result (JSON).
/// SIGINT and SIGTERM are passed on, so that the run saves itself. Throws Cancelled then; UsageError if the run was
/// refused; PeerError when the restarts are used up.
std::string SuperviseTraining(const std::filesystem::path& config, bool resume,
                              const pipeline::SuperviseOptions& options);

}  // namespace antiphon::app
