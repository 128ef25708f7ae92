// Which experiment a checkpoint belongs to: everything that has a say in the model, as text.
//
// Threads: pure functions. Errors: none of their own.
#pragma once

#include <string>

#include "math/safetensors.h"
#include "nn/network.h"
#include "train/trainer.h"

namespace antiphon::train {

/// What is in the files that options name by their paths, beside those of variation: labels and store of a side task,
/// stored targets, lattices, data of a chain model; a line each. Reads them through, but for what their writers have
/// summed up. IoError and InputError for those that cannot be read.
std::string DescribeInputs(const TrainOptions& options);

/// Of the frame store at `place`, by its index alone.
uint64_t FingerprintOf(const std::string& place);

/// What must be the same for a checkpoint to be continued. Intervals of checkpoints and log lines may change, and so
/// may the number of workers, which is told. `inputs`: DescribeInputs when the run began.
std::string ExperimentText(const TrainingTask& task, TrainOptions options, const nn::Network& network,
                           const std::string& inputs);

/// The first difference between the experiment that left a checkpoint and this one, as a message; empty if there is
/// none. Of inputs that an earlier version's checkpoint does not describe, the paths alone count.
std::string DifferenceFrom(const SafetensorsReader& checkpoint, const std::string& experiment);

}  // namespace antiphon::train
