// What the commands that recognise speech while it is being said have in common: listen and serve.
#pragma once

#include <string>

#include "api/live_recognizer.h"
#include "api/recognizer_options.h"
#include "base/options.h"
#include "decode/search/recognize.h"
#include "infer/nnet_scorer.h"
#include "pipeline/graph_changes.h"

namespace antiphon {

struct ListeningOptions {
  std::string rescore_arpa, graph_arpa;
  double lm_weight = 0.0;
  double word_penalty = 0.0;
  pipeline::GraphChanges changes;
  LiveOptions live;
  decode::RecognizeOptions recognize;
  infer::NnetScorerOptions nnet;

  template <class V>
  void Visit(V& v) {
    v("rescore-arpa", rescore_arpa, "larger language model that replaces the graph's when an utterance is over");
    v("graph-arpa", graph_arpa, "the language model that the graph was built with, for --rescore-arpa");
    v("lm-weight", lm_weight, Range{0.0, 1000.0},
      "weight of the language model in choosing the result; 0: the search's");
    v("word-penalty", word_penalty, Range{-100.0, 100.0}, "cost per word in choosing the result");
    changes.Visit(v);
    live.Visit(v);
    recognize.Visit(v);
    v.Group("nnet", nnet);
  }
};

/// Of a recogniser whose streams these are. `with_profiles`: speakers' profiles will be loaded; `threads`: of a stream.
inline RecognizerOptions RecognizerOptionsOf(const ListeningOptions& options, bool with_profiles, int threads) {
  RecognizerOptions all;
  all.rescore_arpa = options.rescore_arpa;
  all.graph_arpa = options.graph_arpa;
  all.lm_weight = options.lm_weight;
  all.word_penalty = options.word_penalty;
  all.changes = options.changes;
  all.adaptation.passes = 0;  // that is for whole recordings
  all.recognize = options.recognize;
  all.nnet = options.nnet;
  all.nnet.adaptable = all.nnet.adaptable || with_profiles;
  all.threads = threads;
  return all;
}

}  // namespace antiphon
