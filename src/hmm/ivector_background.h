// The mixture of Gaussians that all speakers have in common: what i-vectors are deviations from.
//
// Shapes: frames [N, dim]. Threads: training runs on several, and does not depend on how many. Deterministic.
// Errors: InputError for speech too little to train on.
#pragma once

#include <cstdint>
#include <functional>

#include "base/options.h"
#include "hmm/gmm.h"

namespace antiphon::hmm {

/// Utterances one after another, as often as asked for. May be called from several threads.
struct FrameReader {
  size_t count = 0;
  std::function<Matrix(size_t)> get;  // [frames, dim]
};

struct BackgroundOptions {
  int gaussians = 64;
  int iterations = 4;
  template <class V>
  void Visit(V& v) {
    v("gaussians", gaussians, Range{1, 1 << 16}, "Gaussians that describe all speakers together");
    v("background-iterations", iterations, Range{1, 100}, "EM iterations at each size; sizes double");
  }
};

/// A mixture (of one pdf-id) by EM, split until it has as many Gaussians as asked for and speech allows.
GmmSet TrainBackground(const FrameReader& frames, const BackgroundOptions& options, uint64_t seed, int threads = 1);

}  // namespace antiphon::hmm
