// Learns where sentences end and which words have capitals from text that is written so.
//
// Text: UTF-8, paragraphs separated by blank lines or none at all. A full stop, an exclamation mark and their kin in
// other scripts end a sentence, unless a small letter or nothing that is a word follows; colons and semicolons count as
// commas. What cannot be seen, as soft hyphens, is left out. Words at the beginning of a sentence do not say which
// letters they have otherwise. Threads: pure functions. Errors: InputError for text without punctuation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "written/sentence_model.h"

namespace antiphon::written {

/// A word of written text, taken apart.
struct PunctuatedWord {
  std::string word;      // in small letters
  std::string spelling;  // as it is written
  Letters letters = Letters::kSmall;
  bool mixed = false;  // large and small letters other than a first large one
  Mark mark = Mark::kNone;
};

/// Words as they are spoken, as far as text shows it: hyphens part them, other signs go.
std::vector<PunctuatedWord> ReadPunctuated(std::string_view text);

struct SentenceTraining {
  int buckets = 65536;
  int passes = 3;
  double rate = 0.1;
  uint64_t seed = 1;  // not an option of its own

  template <class V>
  void Visit(V& v) {
    v("buckets", buckets, Range{16, 1 << 24}, "that features of words share; 28 bytes each");
    v("passes", passes, Range{1, 1000}, "over the text");
    v("rate", rate, Range{1e-4, 10.0}, "of learning");
  }
};

SentenceModel TrainSentences(const std::vector<PunctuatedWord>& words, const SentenceTraining& options);

}  // namespace antiphon::written
