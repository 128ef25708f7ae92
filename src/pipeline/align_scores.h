// How well each utterance's audio fits its words, and where to listen if it does not.
//
// Two measures. The path's log-likelihood per frame, against the other utterances: robust deviations from their median
// (1.4826 times the median absolute deviation). The phones' lengths, against the other phones of their name: deviations
// of the logarithm from its mean; the worst one of an utterance says where. Both need company: with fewer than
// kFewestToCompare utterances, or phones of a name, there is nothing to compare with, and the measure is 0.
//
// Units: seconds; nats per frame. Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "feat/zero_spans.h"
#include "pipeline/aligned_times.h"

namespace antiphon::pipeline {

struct AlignedUtterance {
  std::string utt_id;
  AlignedTimes times;        // without words and phones if it was not aligned
  std::string skipped;       // why it was not aligned; "" if it was
  feat::ZeroSpans zeros{1};  // where all samples of its audio are the same
};

struct AlignScore {
  std::string utt_id;
  double seconds = 0.0;
  double log_likelihood = 0.0;
  double deviation = 0.0;        // of the log-likelihood; much below 0 where text and audio differ
  double phone_deviation = 0.0;  // the largest, by size, of the lengths of the words' phones
  double place_s = 0.0;          // where that phone begins
  std::string place_word;
  std::string remark;  // why the utterance is doubtful; "" if it is not

  bool suspicious() const { return !remark.empty(); }
};

inline constexpr int kFewestToCompare = 10;

/// Why an alignment that left most of the text out is none: the text is another recording's. "" if it is one.
std::string WhyTextIsWrong(const AlignedTimes& times);

/// In the order of `utterances`.
std::vector<AlignScore> ScoreAlignments(const std::vector<AlignedUtterance>& utterances);

/// Tab-separated, with a line of column names.
std::string ToTable(const std::vector<AlignScore>& scores);
/// The same of what could not be aligned, where that was looked for: utterance, "text" (nobody says it) or "speech"
/// (the text lacks it), start, end, words.
std::string UnalignedTable(const std::vector<AlignedUtterance>& utterances);

}  // namespace antiphon::pipeline
