// The part of a page about recognised words: error rates with intervals, speakers, examples of errors.
//
// Errors: none of its own; score::Score has checked everything.
#pragma once

#include <string>
#include <vector>

#include "report/html.h"
#include "score/wer.h"

namespace antiphon::report {

/// One scored set: "test, trigram".
struct ScoredSet {
  std::string name;
  score::Report report;
};

/// Error rates as figures, a table of all sets, one of speakers, and the `examples` utterances with most errors per set
/// among those of moderate length. Does nothing without sets.
void AddScoringSections(report::HtmlReport& page, const std::vector<ScoredSet>& sets, int examples = 12);

}  // namespace antiphon::report
