// At the start of a run, all ranks make sure that they run the same experiment on the same data.
#pragma once

#include <string>

#include "comm/communicator.h"
#include "train/trainer.h"

namespace antiphon::train {

/// What must be the same on all ranks, one "key = value" a line: data, network, optimiser, strategy, all options, and
/// whether the run goes on from a checkpoint.
std::string DescribeForAgreement(const TrainingTask& task, const TrainOptions& options, int world_size, bool resume);

/// Rank 0's text, on all ranks. Collective.
std::string FromRankZero(comm::Communicator& comm, std::string text);

/// Initial model and teachers as lines; empty without.
std::string DescribeModels(const TrainingTask& task);

/// Throws the same UsageError on all ranks if one differs from rank 0: which rank, on which machine, and the first line
/// that differs. Collective.
void AgreeOnExperiment(comm::Communicator& comm, const std::string& mine);

}  // namespace antiphon::train
