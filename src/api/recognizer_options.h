// What a Recognizer is made with: the options of its parts, as `antiphon decode` and `antiphon listen` name them.
//
// Threads: plain data and functions. Errors: UsageError naming the option, for values that cannot be.
#pragma once

#include <string>
#include <vector>

#include "antiphon/recognizer.h"
#include "decode/lattice/lattice.h"
#include "decode/search/recognize_in_pieces.h"
#include "hmm/hmm_model.h"
#include "infer/nnet_scorer.h"
#include "pipeline/graph_changes.h"
#include "pipeline/speaker_adaptation.h"
#include "vad/vad_options.h"

namespace antiphon {

struct RecognizerOptions {
  std::string weights, rescore_arpa, graph_arpa, written;
  double lm_weight = 0.0;
  double word_penalty = 0.0;
  bool normalize_variance = false;
  pipeline::GraphChanges changes;
  pipeline::SpeakerAdaptationOptions adaptation;
  decode::RecognizeOptions recognize;
  decode::PieceOptions pieces;
  infer::NnetScorerOptions nnet;
  vad::VadOptions vad;
  int threads = 0;
  // Not an option: what "bundle" means.
  std::vector<std::string> bundles_written;

  template <class V>
  void Visit(V& v) {
    v("weights", weights, "weights.toml of antiphon decode --tune");
    v("lm-weight", lm_weight, Range{0.0, 1000.0}, "weight of the language model in choosing the result");
    v("word-penalty", word_penalty, Range{-100.0, 100.0}, "cost per word in choosing the result");
    v("rescore-arpa", rescore_arpa, "larger language model that replaces the graph's in each lattice");
    v("graph-arpa", graph_arpa, "the language model that the graph was built with, for rescore-arpa");
    v("written", written, "written form beside the words: english, what antiphon written made, or bundle");
    v("norm-vars", normalize_variance, "divide by the standard deviation, as the model's features were made");
    changes.Visit(v);
    adaptation.Visit(v);
    recognize.Visit(v);
    pieces.Visit(v);
    v.Group("nnet", nnet);
    vad.Visit(v);
    v("threads", threads, Range{0, 4096}, "that a call computes with; 0: all cores, of a stream one");
  }
};

RecognizerOptions OptionsOf(const RecognizerSettings& settings);
/// Those of a recogniser, as one of its streams wants them.
decode::RecognizeOptions OptionsFor(const StreamSettings& settings, const RecognizerOptions& recognizer);

/// With which results are chosen.
decode::LatticeWeights ResultWeights(const RecognizerOptions& options, const hmm::HmmModel& model);

}  // namespace antiphon
