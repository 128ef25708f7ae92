// What a decoding says of itself, as figures, as JSON and in sentences.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "decode/lattice/lattice.h"
#include "pipeline/chosen_weights.h"
#include "score/wer.h"

namespace antiphon::pipeline {

/// Weights that a decoding chose on its data.
struct TunedWeights {
  ChosenWeights weights;
  double error_rate = 0.0;  // with them, of all words
  std::filesystem::path file;
};

struct DecodeReport {
  size_t utterances = 0;
  double speech_seconds = 0.0;
  double cpu_seconds = 0.0;
  double wall_seconds = 0.0;
  decode::LatticeWeights weights;      // that chose the results
  std::optional<double> output_share;  // of the network's outputs that a lazy one computed
  size_t speaker_transforms = 0;
  std::optional<score::Report> score;  // if the data have transcripts of some utterances
  std::optional<TunedWeights> tuned;   // if asked for
};

/// The content of summary.json.
nlohmann::ordered_json ToJson(const DecodeReport& report);
/// One sentence each.
std::vector<std::string> Sentences(const DecodeReport& report);

}  // namespace antiphon::pipeline
