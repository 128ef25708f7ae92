// Runs training in a process of its own (or in those that a launcher such as mpirun starts), and starts it again when
// it fails, or when other processes are to go on: from the last checkpoint once it has begun, before that as it was
// asked for.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "pipeline/training_job.h"

namespace antiphon::app {

/// The processes of a run.
struct ProcessPlan {
  std::string launch;
  int workers = 1;
};

/// Who knows what is asked of the run.
struct SupervisedRun {
  std::filesystem::path config;
  /// The processes that antiphon resize asked for since the last call; nothing if there was no request.
  std::function<std::optional<ProcessPlan>()> take_request;
  /// The next start of the run is by this plan.
  std::function<void(const ProcessPlan&)> prepare;
  /// Whether the run has got as far as taking its folder since then.
  std::function<bool()> has_begun;
  /// The command line that resumes the run, for the error when --restarts are used up.
  std::string resume_hint;
};

/// Runs `antiphon train --config CONFIG` by `plan` until it succeeds, and returns its result (JSON). SIGINT and SIGTERM
/// are passed on, so that the run saves itself. A run that stopped, or failed, while other processes were asked for is
/// started with those; if they cannot be, with the ones before. Throws Cancelled when it was stopped; UsageError if the
/// run was refused; PeerError when the restarts are used up.
std::string SuperviseTraining(const SupervisedRun& run, ProcessPlan plan, bool resume, int restarts);

}  // namespace antiphon::app
