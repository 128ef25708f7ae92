// What the commands that recognise speech while it is being said have in common: listen and serve.
#pragma once

#include <string>

#include "api/live_recognizer.h"
#include "api/recognizer_options.h"
#include "base/options.h"
#include "decode/search/recognize.h"
#include "infer/nnet_scorer.h"
#include "pipeline/graph_changes.h"
#include "vad/vad_options.h"

namespace antiphon {

struct ListeningOptions {
  pipeline::ResultOptions result;
  pipeline::GraphChanges changes;
  LiveOptions live;
  decode::RecognizeOptions recognize;
  infer::NnetScorerOptions nnet;
  vad::VadOptions vad;

  template <class V>
  void Visit(V& v) {
    result.Visit(v);
    changes.Visit(v);
    live.Visit(v);
    recognize.Visit(v);
    v.Group("nnet", nnet);
    vad.Visit(v);
  }
};

/// Of a recogniser whose streams these are. `with_profiles`: speakers' profiles will be loaded; `threads`: of a stream.
inline RecognizerOptions RecognizerOptionsOf(const ListeningOptions& options, bool with_profiles, int threads) {
  RecognizerOptions all;
  static_cast<pipeline::ResultOptions&>(all) = options.result;
  all.changes = options.changes;
  all.adaptation.passes = 0;  // that is for whole recordings
  all.recognize = options.recognize;
  all.nnet = options.nnet;
  all.vad = options.vad;
  all.nnet.adaptable = all.nnet.adaptable || with_profiles;
  all.threads = threads;
  return all;
}

}  // namespace antiphon
