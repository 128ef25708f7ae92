// What a rank holds of the model, and what learns it: network, optimiser, strategy, targets, the auxiliary task.
//
// Threads: one. Errors: UsageError for networks and methods that do not go together, or do not fit into the memory that
// a device is said to have; InputError for an initial model of another shape.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "comm/communicator.h"
#include "nn/model.h"
#include "optim/optimizer.h"
#include "parallel/strategy.h"
#include "parallel/value_share.h"
#include "train/run_data.h"
#include "train/side_speech.h"
#include "train/targets.h"
#include "train/trainer.h"

namespace antiphon::train {

class ModelReplica {
 public:
  /// Describes the network; Build makes it. `sequence` null: learns by frames.
  ModelReplica(const TrainingTask& task, const TrainOptions& options, comm::Communicator& comm,
               const SequenceTask* sequence);

  /// Makes everything anew. `parts` null: every rank holds the whole. `best_kept`: somebody keeps a copy of the best
  /// model, which counts where memory is limited.
  void Build(std::unique_ptr<parallel::ModelParts> parts, const RunData& data, bool best_kept);

  /// Of the whole model.
  const nn::Network& outline() const { return outline_; }
  nn::Network& outline() { return outline_; }
  /// The whole, or this rank's part.
  nn::Network& network() { return network_; }
  const nn::Network& network() const { return network_; }
  optim::Optimizer& optimizer() { return *optimizer_; }
  parallel::Strategy& strategy() { return *strategy_; }
  const parallel::Strategy& strategy() const { return *strategy_; }
  TargetMaker& targets() { return *targets_; }
  /// Null: no auxiliary task.
  SideSpeech* side() { return side_.get(); }
  const SideSpeech* side() const { return side_.get(); }
  /// Null if every rank holds the whole model.
  const parallel::ModelParts* parts() const { return parts_.get(); }
  /// A checkpoint is written behind the arithmetic, from a copy: it is wanted, and has room. The same on all ranks.
  bool copies_checkpoints() const { return copies_checkpoints_; }
  /// Null if this rank's optimiser steps all that the rank holds.
  const parallel::ValueShare* value_share() const { return share_.get(); }
  /// Of the ranks that hold a replica together one speaks for all.
  bool speaks() const { return !parts_ || parts_->position(comm_.rank()) + 1 == parts_->ranks(); }
  /// Which part of data that all look at is this rank's: each replica takes one.
  parallel::DataShare share() const;

  /// Brings the features to zero mean and unit variance over the training data. Collective.
  void NormalizeInput(const RunData& data);
  /// Writes the network, put together from all ranks' parts, with what else `model` holds (only rank 0's counts);
  /// returns the whole network's hash. Collective.
  uint64_t Save(nn::Model model, const std::filesystem::path& path);

 private:
  void Describe();
  void RequireFrames(const SequenceTask* sequence) const;
  void BuildSideTask(const RunData& data);
  void RequireMemory(bool best_kept);

  const TrainingTask& task_;
  const TrainOptions& options_;
  comm::Communicator& comm_;
  nn::Network outline_;
  std::unique_ptr<parallel::ModelParts> parts_;
  nn::Network network_;
  std::unique_ptr<parallel::ValueShare> share_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<parallel::Strategy> strategy_;
  std::unique_ptr<TargetMaker> targets_;
  std::unique_ptr<SideSpeech> side_;
  bool copies_checkpoints_ = false;
};

}  // namespace antiphon::train
