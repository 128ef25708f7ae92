// Word and character error rates over a set of utterances.
//
// WER = (substitutions + deletions + insertions) / reference words; CER the same over code points with the blanks
// removed. The confidence interval is the percentile bootstrap over utterances (Bisani and Ney, ICASSP 2004), seeded.
//
//   const Report report = Score(ReadTranscripts("ref"), ReadTranscripts("hyp"), {});
//   fmt::print("{}", FormatSummary(report));
//
// Threads: pure functions. Errors: InputError, naming utterances that stand on one side only and what to do.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/options.h"
#include "score/edit_alignment.h"
#include "score/transcript.h"

namespace antiphon::score {

struct ScoreOptions {
  std::string unit = "word";  // or "character"
  std::string missing = "error";
  bool ignore_case = false;
  int bootstrap_samples = 1000;
  double confidence = 0.95;
  int64_t seed = 0;  // of the resampling

  /// Without unit and seed, which programs have words of their own for.
  template <class V>
  void Visit(V& v) {
    v("missing", missing, OneOf{{"error", "empty", "skip"}},
      "an utterance without hypothesis: refuse it, count it as empty, or leave it out");
    v("ignore-case", ignore_case, "compare letters whatever their case, in every alphabet");
    v("bootstrap-samples", bootstrap_samples, Range{0, 1000000}, "resamplings for the confidence interval; 0: none");
    v("confidence", confidence, Range{0.5, 0.9999}, "coverage of the interval");
  }
};

struct UtteranceScore {
  std::string utt_id;
  std::string speaker;
  std::vector<std::string> reference;  // words, or characters
  std::vector<std::string> hypothesis;
  EditAlignment alignment;
};

struct SpeakerScore {
  int64_t utterances = 0;
  int64_t wrong_utterances = 0;
  ErrorCounts counts;
};

struct Report {
  std::string unit;                        // "word" or "character"
  std::vector<UtteranceScore> utterances;  // in the order of utt_id
  std::map<std::string, SpeakerScore> speakers;
  SpeakerScore total;
  double confidence = 0.0;
  double interval_low = 0.0;  // of the error rate; both equal it without resampling
  double interval_high = 0.0;
  std::vector<std::string> missing;  // references without hypothesis that were counted as empty or left out
  std::vector<std::string> silent;   // hypotheses that the reference's CTM lacks: what they say is inserted
};

/// Scores every reference. Utterances missing from a CTM count as empty, on either side. `speakers` may be empty; else
/// it must name every utterance. A hypothesis without reference is refused where the reference is text, or a CTM that
/// has none of the hypotheses.
Report Score(const Transcripts& reference, const Transcripts& hypothesis,
             const std::map<std::string, std::string>& speakers = {}, const ScoreOptions& options = {});

/// "WER 12.34 % [11.20, 13.40] (…)", how many had no hypothesis or are not in the reference's CTM, and the counts by
/// speaker if there are several.
std::string FormatSummary(const Report& report, bool with_speakers = true);
/// Reference above hypothesis, column by column, with S, D and I below; one block per utterance.
std::string FormatAlignments(const Report& report);
/// Everything as one JSON document, without a rate if no utterance was scored; `with_utterances` adds the counts of
/// each utterance.
std::string FormatJson(const Report& report, bool with_utterances);

}  // namespace antiphon::score
