// Brings back the state of a run from its checkpoints: of the same number of ranks bit by bit, of another one folded.
//
// Threads: one. Errors: InputError for checkpoints of another experiment and damaged ones; DivergenceError where there
// is none to fall back to.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "train/run_saver.h"

namespace antiphon::train {

class RunLoader {
 public:
  RunLoader(RunParts& run, RunSaver& saver) : run_(run), saver_(saver) {}

  /// Loads the newest checkpoint, and starts the strategy; false if there is none. Collective.
  bool LoadNewest();
  /// Loads the newest checkpoint of a pre-training that was broken off; false if there is none. Collective.
  bool LoadPretraining();
  /// That checkpoint's file, until ForgetPretraining.
  const std::optional<std::filesystem::path>& broken_pretraining() const { return broken_pretraining_; }
  void ForgetPretraining() { broken_pretraining_.reset(); }
  /// Goes back to the newest checkpoint, lowers the rates and forgets the optimiser's momentum. Collective.
  void LoadAfterFailure(const Position& failed, int fallbacks);
  /// Lets the strategy begin; there is nothing to save yet.
  void StartStrategy();

 private:
  bool IsOfAnotherExperiment(const std::filesystem::path& file) const;
  void RequireSameExperiment(const SafetensorsReader& reader) const;
  void Load(const std::filesystem::path& file);
  void LoadOptimizer(const std::filesystem::path& file, const SafetensorsReader& reader);
  void Fold(const CheckpointFolder::OtherRun& other);
  void FoldPosition(const std::vector<SafetensorsReader>& ranks);

  RunParts& run_;
  RunSaver& saver_;
  std::optional<std::filesystem::path> broken_pretraining_;
};

}  // namespace antiphon::train
