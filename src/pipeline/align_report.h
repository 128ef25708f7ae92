// What an alignment says of itself, as figures, as text, as JSON and in a sentence.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "hmm/gmm_trainer.h"
#include "pipeline/align_scores.h"

namespace antiphon::pipeline {

struct AlignReport {
  hmm::GmmTrainingReport training;
  std::vector<AlignScore> scores;  // of all utterances
  double seconds = 0.0;
  std::filesystem::path text;  // report.txt
};

/// The content of report.txt.
std::string Text(const AlignReport& report);
/// The content of report.json.
nlohmann::ordered_json ToJson(const AlignReport& report);
std::string Sentence(const AlignReport& report);

}  // namespace antiphon::pipeline
