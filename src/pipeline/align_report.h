// What an alignment says of itself, as figures, as text, as JSON and in a sentence.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/data_dir.h"
#include "hmm/gmm_trainer.h"
#include "pipeline/align_scores.h"

namespace antiphon::pipeline {

struct AlignReport {
  hmm::GmmTrainingReport training;
  std::vector<AlignScore> scores;           // of all utterances
  std::vector<data::DataProblem> left_out;  // files, texts and utterances that nothing could be tried with
  bool of_audio = false;                    // its features were made for it
  double seconds = 0.0;
  double time_step_s = 0.01;   // of words and phones
  std::string times_by;        // who found them, if not whoever aligned; "": nothing to say
  std::filesystem::path text;  // report.txt

  /// Audio was given, and some of it or of its texts got no alignment.
  bool is_partial() const { return of_audio && (!left_out.empty() || !training.skipped.empty()); }
};

/// The content of report.txt.
std::string Text(const AlignReport& report);
/// The content of report.json.
nlohmann::ordered_json ToJson(const AlignReport& report);
std::string Sentence(const AlignReport& report);
/// How many of the aligned utterances are doubtful, and the first of them; "" if none is.
std::string DoubtsIn(const AlignReport& report);

}  // namespace antiphon::pipeline
