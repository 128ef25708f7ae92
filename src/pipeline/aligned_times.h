// An alignment as words and phones with times, and the formats that people take it in.
//
// Units: seconds from the beginning of the audio. Threads: pure functions. Sources: NIST's CTM; Praat's manual,
// "TextGrid file formats".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hmm/aligner.h"
#include "hmm/hmm_model.h"
#include "hmm/lexicon.h"

namespace antiphon::pipeline {

struct TimedPhone {
  std::string phone;  // as the model names it
  double start_s = 0.0;
  double end_s = 0.0;
};

struct TimedWord {
  std::string word;
  double start_s = 0.0;
  double end_s = 0.0;
  int first_phone = 0;  // in AlignedTimes::phones
  int num_phones = 0;
};

/// Where text and speech do not agree.
struct UnalignedPart {
  double start_s = 0.0;
  double end_s = 0.0;                   // the start, if it is text that nobody says
  std::vector<std::string> words = {};  // empty: speech that the text lacks
};

struct AlignedTimes {
  std::vector<TimedWord> words;            // in order; pauses lie between them
  std::vector<TimedPhone> phones;          // without gaps; pauses are phones, too
  double duration_s = 0.0;                 // of the audio
  double log_likelihood = 0.0;             // of the path, per frame, in nats
  bool retried = false;                    // no path was found with the first beam
  std::vector<std::string> unknown_words;  // of the text, without pronunciation
  std::vector<UnalignedPart> unaligned;    // in the order of time
};

/// The label of speech that the text lacks, where phones are listed.
inline constexpr char kUnalignedLabel[] = "<unaligned>";

/// Phones in other frames than the alignment's (pipeline/finer_phones.h).
struct FinePhones {
  std::span<const hmm::AlignedPhone> phones;
  double frame_shift_s = 0.01;
};

/// `words`: the transcript as it was aligned (unknown words as <UNK>). The audio lasts as long as its frames. `fine`:
/// the same phones, if there are any whose times are better.
AlignedTimes TimesOf(const hmm::Alignment& alignment, const hmm::HmmModel& model, const hmm::Lexicon& lexicon,
                     const hmm::WordIds& words, double frame_shift_s, const FinePhones& fine = {});

/// Tiers "words" and "phones", in UTF-8.
std::string ToTextGrid(const AlignedTimes& times);

/// {"words": [{"word", "start", "end", "phones": [{"phone", "start", "end"}, …]}, …], "duration", "log_likelihood",
/// "retried", "unknown_words", "unaligned": [{"start", "end", "text"}, …]}; times rounded to milliseconds.
std::string ToJson(const AlignedTimes& times);

enum class CtmLevel { kWords, kPhones };
/// Lines of UTTERANCE CHANNEL START DURATION LABEL, seconds with three decimals.
std::string ToCtm(const AlignedTimes& times, std::string_view utterance, CtmLevel level,
                  std::string_view channel = "1");

}  // namespace antiphon::pipeline
