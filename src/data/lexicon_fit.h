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

/// The text with its words as a lexicon writes them, as far as it has them in another case or without punctuation; the
/// others without punctuation, in the case of the lexicon's words if that has one case only. For each its own way:
/// "Mr." and "don't" may be words as they stand.
std::string InLexiconSpelling(const std::string& text, const std::set<std::string>& lexicon);

}  // namespace antiphon::data
