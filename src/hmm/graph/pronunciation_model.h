// How often each pronunciation of a word is used, and where pauses stand, learnt from aligned speech.
//
//   P(pronunciation | word)  counts plus the lexicon's own probability, divided by the largest of the word, so that a
//                            word with many pronunciations costs no more than one with a single one
//   P(pause | after it)      counts, drawn to the mean of all words where they are few
//   factors before it        how much more often (above 1) or seldom a pause, or no pause, stands before it than the
//                            words before it make one expect
// What was not seen has the lexicon's probability, the mean of pauses, and factors of 1.
//
// Files, in Kaldi's formats: lexiconp_silprob.txt (WORD PROBABILITY PAUSE-AFTER FACTOR-AFTER-PAUSE FACTOR-AFTER-NONE
// PHONE …) and silprob.txt ("<s>" the pause at the beginning, "</s>_s" and "</s>_n" the factors of the end, "overall").
//
// Threads: pure functions. Errors: InputError "file:line: …" for words and pronunciations that the lexicon lacks and
// numbers out of range.
// Source: Chen, Xu, Wang, Povey, Khudanpur, Pronunciation and silence probability modeling for ASR, Interspeech 2015.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hmm/lexicon.h"

namespace antiphon::hmm {

struct PronunciationModel {
  struct Entry {
    double probability = 1.0;         // of the word's most frequent one: 1
    double pause_after = 0.5;         // probability
    double factor_after_pause = 1.0;  // where a pause stands before it
    double factor_after_none = 1.0;   // where none does
  };
  double pause_at_start = 0.5;  // probability
  double end_factor_after_pause = 1.0;
  double end_factor_after_none = 1.0;
  double pause_overall = 0.5;
  std::vector<Entry> entries;  // as Lexicon::entries()
};

/// An utterance as it was said. One more place for a pause than words: before each, and at the end.
struct SpokenWords {
  std::vector<int32_t> entries;  // indices into Lexicon::entries()
  std::vector<bool> pauses;
};

/// Throws InputError if no utterance has words.
PronunciationModel EstimatePronunciations(const Lexicon& lexicon, std::span<const SpokenWords> utterances);

/// The index into lexicon.entries(), −1 if the word has no such pronunciation.
int32_t FindEntry(const Lexicon& lexicon, int32_t word, std::span<const int32_t> phones);

/// lexiconp_silprob.txt, of all entries.
std::string EntriesToText(const PronunciationModel& model, const Lexicon& lexicon);
/// silprob.txt.
std::string PausesToText(const PronunciationModel& model);
/// Both files' texts; `entries_source` and `pauses_source` stand in for their names in errors. `missing`, if not null,
/// becomes the number of entries of the lexicon that the file lacks: those are as if never seen.
PronunciationModel ParsePronunciations(std::string_view entries, const std::string& entries_source,
                                       std::string_view pauses, const std::string& pauses_source,
                                       const Lexicon& lexicon, int* missing);

}  // namespace antiphon::hmm
