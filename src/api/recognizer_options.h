// What a Recognizer is made with: the options of its parts, as `antiphon decode` and `antiphon listen` name them.
//
// Threads: plain data and functions. Errors: UsageError naming the option, for values that cannot be.
#pragma once

#include "antiphon/recognizer.h"
#include "decode/search/recognize.h"
#include "pipeline/recognition_options.h"

namespace antiphon {

struct RecognizerOptions : pipeline::RecognitionOptions {
  bool normalize_variance = false;
  int threads = 0;

  template <class V>
  void Visit(V& v) {
    pipeline::RecognitionOptions::Visit(v);
    v("norm-vars", normalize_variance, "divide by the standard deviation, as the model's features were made");
    v("threads", threads, Range{0, 4096}, "that a call computes with; 0: all cores, of a stream one");
  }
};

RecognizerOptions OptionsOf(const RecognizerSettings& settings);
/// Those of a recogniser, as one of its streams wants them.
decode::RecognizeOptions OptionsFor(const StreamSettings& settings, decode::RecognizeOptions recognizers);

}  // namespace antiphon
