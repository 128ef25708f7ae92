// A training as the program runs it: in the processes that it was started with, or in processes of its own that are
// started again when they fail.
//
// Threads: one caller per process. Errors: those of training (train/training_request.h) and of supervise.h.
#pragma once

#include <string>

#include "command.h"
#include "pipeline/training_job.h"

namespace antiphon::app {

/// Prints how it ended; returns the summary as the text of a JSON object. Leaves config.toml with which `antiphon
/// train --config` runs the same again.
std::string RunTrainingJob(const pipeline::TrainingJob& job, CommandContext& context);

}  // namespace antiphon::app
