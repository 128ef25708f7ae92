// Which sound counts as speech, and where a turn of speech begins and ends.
//
// Units: seconds, probabilities. Threads: plain data.
#pragma once

#include <string>

#include "base/options.h"

namespace antiphon::vad {

/// What `VadOptions::model` says where nothing is to be left out.
inline constexpr char kNoVad[] = "none";

struct VadOptions {
  std::string model;
  double threshold = 0.5;
  double peak = 0.9;
  double min_speech_s = 0.1;
  double min_pause_s = 0.5;
  double padding_s = 0.3;
  double least_contrast = 0.61;

  template <class V>
  void Visit(V& v) {
    v("vad", model,
      "model that tells speech from other sound (recipes/vad.toml makes one), or a bundle that has one: only speech is "
      "decoded; empty: the bundle's; none: everything is decoded");
    VisitTurns(v);
    v("vad-contrast", least_contrast, Range{0.0, 1.0},
      "how much the scores of the recogniser's network must rise and fall in an utterance, as a share of what is usual "
      "on its development set (weights.toml), times the square of how sure the model of speech is of it, or its words "
      "are left out: it is music or noise; 0: all are kept");
  }
  /// Without the model and vad-contrast.
  template <class V>
  void VisitTurns(V& v) {
    v("vad-threshold", threshold, Range{0.01, 0.99}, "probability of speech from which on sound counts as speech");
    v("vad-peak", peak, Range{0.0, 0.99},
      "probability of speech that a turn must reach for vad-min-speech; 0: the threshold is enough");
    v("vad-min-speech", min_speech_s, Range{0.0, 10.0}, "seconds of speech that it takes to begin a turn");
    v("vad-min-pause", min_pause_s, Range{0.05, 60.0}, "seconds without speech that end a turn");
    v("vad-padding", padding_s, Range{0.0, 10.0}, "seconds before and after speech that belong to its turn");
  }

  /// Whether there is a model to ask.
  bool on() const { return !model.empty() && model != kNoVad; }
};

}  // namespace antiphon::vad
