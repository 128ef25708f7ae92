// Options of antiphon decode, and what follows from them.
#pragma once

#include <string>

#include "api/acoustic_model.h"
#include "audio_places.h"
#include "data/feature_source.h"
#include "decode/recognize_in_pieces.h"
#include "decode/weight_search.h"
#include "feature_tables.h"
#include "speaker_profiles.h"

namespace antiphon::app {

struct DecodeCommandOptions {
  std::string model, graph, data, out, weights, graph_arpa, rescore_arpa;
  double lm_weight = 0.0;
  double word_penalty = 0.0;
  bool tune = false;
  bool lattices = true;
  int adapt_passes = 2;
  double adapt_beam = 11.0;
  double min_fmllr_frames = 500;
  ProfileOptions profiles;
  AudioPlaceOptions audio;
  data::DataDirOptions data_dir;
  data::FeatureSourceOptions features;
  decode::RecognizeOptions recognize;
  decode::PieceOptions pieces;
  decode::WeightSearchOptions search;
  infer::NnetScorerOptions nnet;

  template <class V>
  void Visit(V& v) {
    v("model", model, "model file: GMM or network");
    v("graph", graph, "folder that antiphon graph made for this model");
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
    v("adapt-passes", adapt_passes, Range{0, 10},
      "passes by Gaussians that give and improve speakers' transforms (fMLLR), if the model is trained for them");
    v("adapt-beam", adapt_beam, Range{1.0, 1000.0}, "beam of these passes");
    v("min-fmllr-frames", min_fmllr_frames, Range{1, 1e9}, "frames of speech that a speaker's transform needs");
    profiles.Visit(v);
    audio.Visit(v);
    data_dir.Visit(v);
    features.Visit(v);
    recognize.Visit(v);
    pieces.Visit(v);
    search.Visit(v);
    v.Group("nnet", nnet);
  }
};

/// How the network's features are normalised; "" for Gaussians.
std::string NormalisationIn(const AcousticModel& model);

/// Whether transforms that were given, without a speaker model, belong to the one that the network brings along.
bool UsesGivenTransforms(const DecodeCommandOptions& options, const AcousticModel& model);

/// Without those transforms.
data::FeatureSourceOptions TablesAsNamed(const DecodeCommandOptions& options, const AcousticModel& model);

/// With which results are chosen.
decode::LatticeWeights Weights(const DecodeCommandOptions& options, const hmm::HmmModel& model);

infer::NnetScorerOptions NetworkOptions(const DecodeCommandOptions& options);

}  // namespace antiphon::app
