// What a decoding is asked for: the options of antiphon decode, and what follows from them.
//
// Threads: plain data and functions. Errors: UsageError for options that exclude each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/feature_source.h"
#include "decode/lattice/weight_search.h"
#include "decode/search/recognize_in_pieces.h"
#include "pipeline/acoustic_model.h"
#include "pipeline/audio_places.h"
#include "pipeline/feature_tables.h"
#include "pipeline/graph_changes.h"
#include "pipeline/speaker_adaptation.h"
#include "pipeline/speaker_profiles.h"
#include "vad/vad_options.h"

namespace antiphon::pipeline {

struct DecodeRequest {
  std::string model, graph, data, out, weights, graph_arpa, rescore_arpa, written;
  double lm_weight = 0.0;
  double word_penalty = 0.0;
  bool tune = false;
  bool lattices = true;
  GraphChanges changes;
  SpeakerAdaptationOptions adaptation;
  ProfileOptions profiles;
  AudioPlaceOptions audio;
  data::DataDirOptions data_dir;
  data::FeatureSourceOptions features;
  decode::RecognizeOptions recognize;
  decode::PieceOptions pieces;
  decode::WeightSearchOptions search;
  infer::NnetScorerOptions nnet;
  vad::VadOptions vad;

  template <class V>
  void Visit(V& v) {
    v("model", model, "model file, GMM or network; or what antiphon bundle made, which has all that it needs");
    v("graph", graph, "folder that antiphon graph made for this model; empty: the bundle's");
    v("data", data,
      "data directory: which utterances; its text, if there, is the reference; or audio: a file or a folder");
    v("out", out, "folder for text, words.ctm, phones.ctm, results.jsonl, lattices.gz and summary.json");
    v("weights", weights, "weights.toml of a run with --tune on a development set");
    v("lm-weight", lm_weight, Range{0.0, 1000.0},
      "weight of the language model (1 / acoustic scale) in choosing the result; 0: the search's");
    v("word-penalty", word_penalty, Range{-100.0, 100.0}, "cost per word in choosing the result");
    v("tune", tune, "choose lm-weight and word-penalty on these data (a development set) and write weights.toml");
    v("rescore-arpa", rescore_arpa, "larger language model that replaces the graph's in each lattice");
    v("graph-arpa", graph_arpa, "the language model that the graph was built with, for --rescore-arpa");
    v("lattices", lattices, "write lattices.gz");
    v("written", written,
      "write what was said as people write it, too (written, results.jsonl), with numbers, full stops and capitals: "
      "english, what antiphon written made, or bundle, the bundle's own");
    changes.Visit(v);
    adaptation.Visit(v);
    profiles.Visit(v);
    audio.Visit(v);
    data_dir.Visit(v);
    features.Visit(v);
    recognize.Visit(v);
    pieces.Visit(v);
    search.Visit(v);
    v.Group("nnet", nnet);
    vad.Visit(v);
  }

  // Not an option of its own.
  uint64_t seed = 1;  // of the error rate's interval
  // What "bundle" means as a written form.
  std::vector<std::string> bundles_written = {};
};

/// The request with model, graph, weights and language models of the bundle that stands in the model's place; what is
/// given stays. UsageError without a graph.
DecodeRequest WithBundle(DecodeRequest request);

/// Whether transforms that were given, without a speaker model, belong to the one that the network brings along.
bool UsesGivenTransforms(const DecodeRequest& options, const AcousticModel& model);

/// Without those transforms.
data::FeatureSourceOptions TablesAsNamed(const DecodeRequest& options, const AcousticModel& model);

/// With which results are chosen.
decode::LatticeWeights Weights(const DecodeRequest& options, const hmm::HmmModel& model);

infer::NnetScorerOptions NetworkOptions(const DecodeRequest& options);

}  // namespace antiphon::pipeline
