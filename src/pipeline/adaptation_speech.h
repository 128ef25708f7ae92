// Speech to adapt to, from a data directory to a frame store: features, words (given, or the model's own decoding),
// alignment.
//
// Of chain models the references of the new speech too. Folder: features/ (if they had to be computed), decode/ (if
// unsupervised), speech/ (text and utt2spk of the utterances that count), align/, store/. Errors: InputError naming
// directory and what is missing.
#pragma once

#include <filesystem>
#include <string>

#include "base/options.h"
#include "data/data_dir.h"
#include "data/feature_source.h"
#include "nn/model.h"
#include "pipeline/stage_host.h"

namespace antiphon::pipeline {

struct AdaptSpeechOptions {
  std::string data, lexicon, graph, adapt_graph, weights, speaker, chain_data;
  bool unsupervised = false;
  double min_confidence = 0.8;
  data::DataDirOptions data_dir;
  data::FeatureSourceOptions features;
  template <class V>
  void Visit(V& v) {
    v("data", data, "data directory with the speech to adapt to, instead of --store");
    v("lexicon", lexicon, "pronunciations of its words; empty: those of --graph, or of the bundle");
    v("unsupervised", unsupervised,
      "the words are those that the model recognises with --graph; transcripts are not read");
    v("graph", graph,
      "search graph, for --unsupervised and for speech without transcripts if the model adapts features; empty: the "
      "bundle's");
    v("adapt-graph", adapt_graph,
      "search graph for the Gaussians that find speakers' transforms, where the network has other states (chain "
      "models)");
    v("weights", weights, "weights.toml for the search");
    v("min-confidence", min_confidence, Range{0, 1},
      "with --unsupervised: mean confidence of an utterance's words below which it is left out");
    v("chain-data", chain_data,
      "of a chain model, the folder that antiphon chain made for its training: its denominator competes with the new "
      "speech too, and its references measure what is forgotten of --old-store");
    v("speaker", speaker, "take this speaker's utterances only");
    data_dir.Visit(v);
    features.Visit(v);
  }
};

/// Whether the words are known, as transcripts or by recognition.
bool HasWords(const AdaptSpeechOptions& options);

/// Returns the store's folder. Of a chain model, `out`/chain holds what train.sequence.chain-data takes. Where words
/// are neither known nor needed, all frames have pdf-id 0.
std::filesystem::path MakeAdaptationStore(const AdaptSpeechOptions& options, const std::string& model_file,
                                          const nn::Model& model, bool needs_words, const std::filesystem::path& out,
                                          const StageHost& host);

}  // namespace antiphon::pipeline
