// Which experiment a checkpoint belongs to: everything that has a say in the model, as text.
//
// Threads: pure functions. Errors: none of their own.
#pragma once

#include <string>

#include "math/safetensors.h"
#include "nn/network.h"
#include "train/trainer.h"

namespace antiphon::train {

/// What must be the same for a checkpoint to be continued. Intervals of checkpoints and log lines may change, and so
/// may the number of workers, which is told.
std::string ExperimentText(const TrainingTask& task, TrainOptions options, const nn::Network& network);

/// The first difference between the experiment that left a checkpoint and this one, as a message; empty if there is
/// none.
std::string DifferenceFrom(const SafetensorsReader& checkpoint, const std::string& experiment);

}  // namespace antiphon::train
