#include "data/lexicon_fit.h"

#include <algorithm>

#include "base/utf8.h"
#include "data/text_table.h"
#include "data/transcript_rows.h"

namespace antiphon::data {
namespace {

// Running words, of those that are unknown now, that the lexicon has when they are written so.
int64_t KnownWith(const PrepareOptions& spelling, const DataSummary& summary, const std::set<std::string>& lexicon) {
  int64_t known = 0;
  for (const auto& [word, count] : summary.oov) {
    bool all = true;
    for (const std::string& part : SplitWords(NormaliseTranscript(word, spelling))) all = all && lexicon.contains(part);
    if (all) known += count;
  }
  return known;
}

PrepareOptions Spelling(bool strip, const char* letters) {
  PrepareOptions spelling;
  spelling.case_folding = letters;
  spelling.strip_punctuation = strip;
  return spelling;
}

// Of a lexicon's words, apart from those in brackets.
const char* CaseOf(const std::set<std::string>& lexicon) {
  bool small = false, large = false;
  for (const std::string& word : lexicon) {
    if (word.starts_with('<') || word.starts_with('[')) continue;
    small = small || UpperCase(word) != word;
    large = large || LowerCase(word) != word;
  }
  return small == large ? "keep" : small ? "lower" : "upper";
}

}  // namespace

bool MostWordsUnknown(const DataSummary& summary) {
  return summary.has_lexicon && 2 * summary.oov_running_words > summary.running_words;
}

SpellingAdvice AdviseSpelling(const DataSummary& summary, const std::set<std::string>& lexicon) {
  SpellingAdvice advice;
  int64_t most = summary.oov_running_words / 10;  // fewer are no reason
  for (const bool strip : {false, true}) {
    for (const char* const letters : {"keep", "lower", "upper"}) {
      PrepareOptions spelling;
      spelling.case_folding = letters;
      spelling.strip_punctuation = strip;
      const int64_t known = KnownWith(spelling, summary, lexicon);
      // One more option has to be worth it.
      if (known <= most + most / 50) continue;
      most = known;
      advice.options = spelling.case_folding == "keep" ? "" : "--case " + spelling.case_folding;
      if (strip) advice.options += advice.options.empty() ? "--strip-punctuation" : " --strip-punctuation";
      advice.known_share =
          1.0 - static_cast<double>(summary.oov_running_words - known) / static_cast<double>(summary.running_words);
    }
  }
  return advice;
}

std::string InLexiconSpelling(const std::string& text, const std::set<std::string>& lexicon) {
  const char* const usual = CaseOf(lexicon);
  std::string fitting;
  for (const std::string& word : SplitWords(text)) {
    const auto known = [&](const std::string& words) {
      const std::vector<std::string> parts = SplitWords(words);
      return !parts.empty() && std::ranges::all_of(parts, [&](const auto& part) { return lexicon.contains(part); });
    };
    std::string best = known(word) ? word : "";
    for (const bool strip : {false, true}) {
      for (const char* const letters : {"keep", "lower", "upper"}) {
        if (!best.empty()) break;
        const std::string other = NormaliseTranscript(word, Spelling(strip, letters));
        if (known(other)) best = other;
      }
    }
    if (best.empty()) best = NormaliseTranscript(word, Spelling(true, usual));
    if (!best.empty()) fitting += (fitting.empty() ? "" : " ") + best;
  }
  return fitting;
}

}  // namespace antiphon::data
