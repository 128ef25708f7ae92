// What a decoding is asked for: the options of antiphon decode, and what follows from them.
//
// Threads: plain data and functions. Errors: UsageError for options that exclude each other.
#pragma once

#include <cstdint>
#include <string>

#include "data/feature_source.h"
#include "decode/lattice/weight_search.h"
#include "pipeline/acoustic_model.h"
#include "pipeline/audio_places.h"
#include "pipeline/feature_tables.h"
#include "pipeline/recognition_options.h"
#include "pipeline/speaker_profiles.h"

namespace antiphon::pipeline {

struct DecodeRequest : RecognitionOptions {
  std::string model, graph, data, out;
  bool tune = false;
  bool lattices = true;
  ProfileOptions profiles;
  AudioPlaceOptions audio;
  data::DataDirOptions data_dir;
  data::FeatureSourceOptions features;
  decode::WeightSearchOptions search;

  template <class V>
  void Visit(V& v) {
    v("model", model, "model file, GMM or network; or what antiphon bundle made, which has all that it needs");
    v("graph", graph, "folder that antiphon graph made for this model; empty: the bundle's");
    v("data", data,
      "data directory: which utterances; its text, if there, is the reference; or audio: a file or a folder");
    v("out", out, "folder for text, words.ctm, phones.ctm, results.jsonl, lattices.gz and summary.json");
    v("tune", tune,
      "choose lm-weight, word-penalty and risk-scale on these data (a development set), measure its contrast, and "
      "write weights.toml");
    v("lattices", lattices, "write lattices.gz");
    RecognitionOptions::Visit(v);
    profiles.Visit(v);
    audio.Visit(v);
    data_dir.Visit(v);
    features.Visit(v);
    search.Visit(v);
  }

  // Not an option of its own.
  uint64_t seed = 1;  // of the error rate's interval
};

/// The request with model, graph, weights and language models of the bundle that stands in the model's place, and a
/// network that takes profiles if it names some; what is given stays. UsageError without a graph.
DecodeRequest WithBundle(DecodeRequest request);

/// Whether transforms that were given, without a speaker model, belong to the one that the network brings along.
bool UsesGivenTransforms(const DecodeRequest& options, const AcousticModel& model);

/// Without those transforms.
data::FeatureSourceOptions TablesAsNamed(const DecodeRequest& options, const AcousticModel& model);

}  // namespace antiphon::pipeline
