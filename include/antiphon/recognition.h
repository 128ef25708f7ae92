// What was recognised, as values.
//
// Units: seconds from the beginning of the audio; confidences are probabilities, 0 … 1; costs in nats, lower is better.
// Text is UTF-8 as far as the graph's words are. Ownership, threads: values. Errors: none but for memory.
#pragma once

#include <string>
#include <vector>

#include "antiphon/export.h"

namespace antiphon {

struct RecognizedWord {
  std::string word;
  double start_s = 0.0;
  double end_s = 0.0;
  double confidence = -1.0;  // −1: not computed (RecognizerSettings::confidences), as of what is understood so far

  bool operator==(const RecognizedWord&) const = default;
};

/// One of the n best.
struct Hypothesis {
  std::string text;
  double cost = 0.0;  // by which they are ranked: graph_cost + acoustic_cost / lm_weight + word_penalty · words
  double graph_cost = 0.0;
  double acoustic_cost = 0.0;

  bool operator==(const Hypothesis&) const = default;
};

struct Recognition {
  std::string text;  // the words, with blanks between
  std::vector<RecognizedWord> words;
  std::vector<Hypothesis>
      nbest;           // best first, with different words; empty unless RecognizerSettings::nbest asks for it
  std::string remark;  // why there are no words, for example; usually empty

  // As people write it, if RecognizerSettings::written asks for that: numbers, full stops, capitals.
  std::string written = {};
  std::vector<RecognizedWord> written_words = {};  // each with the times of the words that it stands for

  // What is wrong with the sound of the recording, in sentences: a narrower band than the model's, clipping, hardly any
  // level. A stream says it with Stream::AudioRemarks.
  std::vector<std::string> audio_remarks = {};

  bool operator==(const Recognition&) const = default;
};

/// As JSON in one line: {"text": …, "words": [{"word", "start", "end", "confidence"}, …], "nbest": [{"text", "cost",
/// "graph_cost", "acoustic_cost"}, …], "remark": …, "written": …, "written_words": […], "audio_remarks": […]}; times in
/// seconds, rounded to hundredths; what is not there is left out.
ANTIPHON_API std::string ToJson(const Recognition& recognition);

}  // namespace antiphon
