// How an i-vector extractor is used: which Gaussians of a frame count, how much, and how often there is a new estimate.
//
// Kept in the extractor's file, so that vectors are the same in training and in recognition.
// Units: counts are sums of posteriors after posterior_scale; period and memory in frames.
// Source: the defaults are those of Kaldi's online extractor (online2/online-ivector-feature.h and its recipes).
#pragma once

#include "base/options.h"

namespace antiphon::hmm {

struct IvectorOptions {
  int gaussians_per_frame = 5;
  double min_posterior = 0.025;
  double posterior_scale = 0.1;
  double max_count = 100;
  int period = 10;
  int memory_frames = 1000;
  double vector_scale = 1.0;

  template <class V>
  void Visit(V& v) {
    v("gaussians-per-frame", gaussians_per_frame, Range{0, 1 << 16},
      "likeliest Gaussians that a frame is shared out to; 0: all");
    v("min-posterior", min_posterior, Range{0.0, 0.5}, "Gaussians of a frame that are less likely count for nothing");
    v("posterior-scale", posterior_scale, Range{1e-6, 1.0},
      "what a frame counts: frames that follow each other say much the same");
    v("max-count", max_count, Range{0.0, 1e9},
      "frames, after posterior-scale, from which on more speech makes a vector no bolder; 0: no limit");
    v("period", period, Range{1, 1 << 20},
      "frames after which there is a new vector, if they are made as speech comes");
    v("memory-frames", memory_frames, Range{1, 1 << 30},
      "frames that all earlier utterances of a speaker count for at most");
    v("vector-scale", vector_scale, Range{1e-6, 1e6}, "factor on the numbers of a vector");
  }
};

}  // namespace antiphon::hmm
