// Whether words that a lexicon lacks are there in another spelling: other case, without punctuation.
//
// Threads: pure functions.
#pragma once

#include <set>
#include <string>

#include "data/data_summary.h"

namespace antiphon::data {

/// More than half of the running words are unknown: the lexicon belongs to another language or spelling, and alignment
/// refuses it.
bool MostWordsUnknown(const DataSummary& summary);

/// Options of antiphon prepare with which clearly more of the summary's unknown words would be known, the fewest that
/// do so: "--case upper"; "" if none would.
struct SpellingAdvice {
  std::string options;
  double known_share = 0.0;  // of the running words, then
};
SpellingAdvice AdviseSpelling(const DataSummary& summary, const std::set<std::string>& lexicon);

}  // namespace antiphon::data
