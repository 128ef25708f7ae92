// Brings back the state of a run from its checkpoints: of the same number of ranks bit by bit, of another one folded.
//
// Threads: one. Errors: UsageError for another number of workers in the middle of pre-training; InputError for
// checkpoints of another experiment and damaged ones; DivergenceError where there is none to fall back to.
#pragma once

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "train/run_saver.h"

namespace antiphon::train {

class RunLoader {
 public:
  RunLoader(RunParts& run, RunSaver& saver) : run_(run), saver_(saver) {}

  /// Loads the newest checkpoint, and starts the strategy; false if there is none. Collective.
  bool LoadNewest();
  /// Loads the newest checkpoint of a pre-training that was broken off; false if there is none. UsageError if that was
  /// one by another number of workers. Collective.
  bool LoadPretraining();
  /// That checkpoint, once.
  std::optional<SafetensorsReader> TakePretraining() { return std::exchange(broken_pretraining_, std::nullopt); }
  /// Goes back to the newest checkpoint, lowers the rates and forgets the optimiser's momentum. Collective.
  void LoadAfterFailure(const Position& failed, int fallbacks);
  /// Lets the strategy begin; there is nothing to save yet.
  void StartStrategy();

 private:
  bool IsOfAnotherExperiment(const std::filesystem::path& file) const;
  void RequireSameExperiment(const SafetensorsReader& reader) const;
  void RefusePretrainingOfOtherSize() const;
  void LoadPosition(const SafetensorsReader& reader);
  void Load(const std::filesystem::path& file);
  void LoadOptimizer(const std::filesystem::path& file, const SafetensorsReader& reader);
  bool IsUsable(const SafetensorsReader& rank);
  CheckpointFolder::OtherRun NewestOfOtherSize();
  void Fold(const CheckpointFolder::OtherRun& other);
  void FoldPosition(const std::vector<SafetensorsReader>& ranks);
  void FoldStreams(const std::vector<SafetensorsReader>& ranks);

  RunParts& run_;
  RunSaver& saver_;
  std::optional<SafetensorsReader> broken_pretraining_;
};

}  // namespace antiphon::train
