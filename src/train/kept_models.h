// Models that a run keeps beside the one that learns: the best so far, if the schedule may go back to it, and averages
// over the last part of the run, one over all of it and `halvings` over its last half, quarter, …
//
// Threads: one. Errors: InputError for checkpoints that do not fit.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "math/safetensors.h"
#include "nn/network.h"
#include "train/checkpoint.h"
#include "train/train_options.h"

namespace antiphon::train {

class KeptModels {
 public:
  /// `keeps_best`: the schedule may go back to it.
  KeptModels(const AverageOptions& options, bool keeps_best) : options_(options), keeps_best_(keeps_best) {}

  void RememberBest(const nn::Network& network);
  const nn::Network& best() const { return *best_; }
  /// The same on all ranks, so that rank 0 has it if any has. Collective.
  bool BestIsCurrent(const nn::Network& network, comm::Communicator& comm) const;

  /// After step `position.step`, at `progress` of the run: the model may enter the average, if it is finite.
  void AverageStep(const nn::Network& network, double progress, Position& position);
  /// Of a rank whose models count no more.
  void ForgetAverages(Position& position);
  /// Those that some model entered, from the longest part to the shortest; laid out as the network's values.
  std::span<std::vector<float>> averages() { return averages_; }
  /// Of the k-th average's values in a checkpoint, in front of the parameter's name.
  static std::string AveragePrefix(size_t k);

  /// `position.best_is_current` says whether the best one is the network itself.
  void Save(SafetensorsWriter& writer, const nn::Network& network, const Position& position) const;
  void Load(const SafetensorsReader& reader, const nn::Network& network, const Position& position);
  /// From a run of another number of ranks.
  void LoadFolded(const std::vector<SafetensorsReader>& ranks, nn::Network& network, const Position& position);

 private:
  const AverageOptions& options_;
  bool keeps_best_;
  std::optional<nn::Network> best_;
  std::vector<std::vector<float>> averages_;
};

}  // namespace antiphon::train
