// What is recognised with, and how: the options that `antiphon decode` and antiphon::Recognizer have in common.
//
// Threads: plain data and functions. Errors: UsageError for options that exclude each other; InputError for a file of
// weights.
#pragma once

#include <string>
#include <vector>

#include "decode/lattice/lattice.h"
#include "decode/search/recognize_in_pieces.h"
#include "hmm/hmm_model.h"
#include "infer/nnet_scorer.h"
#include "pipeline/graph_changes.h"
#include "pipeline/speaker_adaptation.h"
#include "vad/vad_options.h"

namespace antiphon::pipeline {

/// Which result is chosen of what a search found; `antiphon listen` has these, too.
struct ResultOptions {
  std::string rescore_arpa, graph_arpa;
  double lm_weight = 0.0;
  double word_penalty = 0.0;
  double risk_scale = 0.0;

  /// Whether any of the weights is given.
  bool weighs() const { return lm_weight != 0.0 || word_penalty != 0.0 || risk_scale != 0.0; }

  template <class V>
  void Visit(V& v) {
    v("lm-weight", lm_weight, Range{0.0, 1000.0},
      "weight of the language model (1 / acoustic scale) in choosing the result; 0: the search's");
    v("word-penalty", word_penalty, Range{-100.0, 100.0}, "cost per word in choosing the result");
    v("risk-scale", risk_scale, Range{0.0, 1000.0},
      "take the words with the fewest expected errors, by probabilities of costs times this (1, or less, as they are "
      "too "
      "sure of themselves); 0: the likeliest ones");
    v("rescore-arpa", rescore_arpa, "larger language model that replaces the graph's in each lattice");
    v("graph-arpa", graph_arpa, "the language model that the graph was built with, for --rescore-arpa");
  }
};

struct RecognitionOptions : ResultOptions {
  std::string weights, written;
  GraphChanges changes;
  SpeakerAdaptationOptions adaptation;
  decode::RecognizeOptions recognize;
  decode::PieceOptions pieces;
  infer::NnetScorerOptions nnet;
  vad::VadOptions vad;
  // Not options: what "bundle" means as a written form, and the bundle's weights.toml, also where other weights are
  // given.
  std::vector<std::string> bundles_written;
  std::string bundles_weights;

  template <class V>
  void Visit(V& v) {
    v("weights", weights, "weights.toml of a run with --tune on a development set");
    ResultOptions::Visit(v);
    v("written", written,
      "write what was said as people write it, too (written, results.jsonl), with numbers, full stops and capitals: "
      "english, what antiphon written made, or bundle, the bundle's own");
    changes.Visit(v);
    adaptation.Visit(v);
    recognize.Visit(v);
    pieces.Visit(v);
    v.Group("nnet", nnet);
    vad.Visit(v);
  }
};

/// With which results are chosen.
decode::LatticeWeights ResultWeights(const RecognitionOptions& options, const hmm::HmmModel& model);
/// That an utterance must have for its words to stand, in nats; 0: any. By the weights, or those of the bundle where
/// others are given that say nothing of it.
double LeastContrast(const RecognitionOptions& options);

}  // namespace antiphon::pipeline
