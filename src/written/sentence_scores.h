// How well a written form finds the sentence ends and capitals of text that it has not learnt from, without any pauses.
//
// Threads: pure function.
#pragma once

#include <cstdint>
#include <span>

#include "written/sentence_training.h"
#include "written/written_form.h"

namespace antiphon::written {

/// Of places at which the text has something (wanted) and those at which it was found.
struct FoundPlaces {
  int64_t wanted = 0;
  int64_t found = 0;
  int64_t right = 0;

  double precision() const { return found > 0 ? static_cast<double>(right) / static_cast<double>(found) : 0.0; }
  double recall() const { return wanted > 0 ? static_cast<double>(right) / static_cast<double>(wanted) : 0.0; }
};

struct SentenceScores {
  FoundPlaces ends;      // behind words
  FoundPlaces capitals;  // words with a large letter, at the beginning of a sentence or not
};

/// `sentences`: the model alone, without rules.
SentenceScores ScoreSentences(const SentenceModel& sentences, std::span<const PunctuatedWord> text);

}  // namespace antiphon::written
