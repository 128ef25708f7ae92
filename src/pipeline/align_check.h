// Whether audio, transcripts and lexicon fit together, before anything is aligned.
//
// Checked: the data directory (data::DataDir::Validate), or how audio and texts join to one; recordings without sound,
// transcripts that cannot be said in the time or that leave most of it without words, and words without pronunciation.
//
// Threads: utterances are read on several. Errors: UsageError where there is no audio to look at, or no lexicon;
// InputError where audio cannot be taken as a data directory at all. What is wrong with the data is returned.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "data/data_dir.h"
#include "pipeline/align_request.h"

namespace antiphon::pipeline {

struct AlignCheck {
  std::string data;  // what was looked at: data directory, file or folder of audio
  int64_t utterances = 0;
  double seconds = 0.0;
  std::vector<data::DataProblem> problems;               // most serious first
  std::vector<std::pair<std::string, int64_t>> unknown;  // words and how often, most frequent first
  int64_t pronounced = 0;                                // words that the lexicon lacks and --g2p pronounces

  bool fine() const { return problems.empty() && unknown.empty(); }
};

/// Leaves no files.
AlignCheck CheckAlignment(const AlignRequest& request, int num_threads);

/// Lines for a person; of problems and of words, at most `shown` each.
std::string Text(const AlignCheck& check, int shown = 20);
nlohmann::ordered_json ToJson(const AlignCheck& check);

}  // namespace antiphon::pipeline
