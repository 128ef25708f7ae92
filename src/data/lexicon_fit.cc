#include "data/lexicon_fit.h"

#include "data/text_table.h"
#include "data/transcript_table.h"

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

}  // namespace antiphon::data
