// A recogniser in one place: a folder, or one file (.antiphon, a plain tar whose members are mapped), that commands
// take as --model in place of model, graph, weights and lexicon.
//
// It holds card.json (what it is, and every file's size and checksum), model.safetensors (network, front end, i-vector
// extractor), graph/ with its lexicon, and, where there are any, weights.toml, adapt-graph/ (of speaker-adapted models)
// the language models for rescoring,
// words.g2p, which pronounces words that the lexicon lacks, vad.safetensors, which tells speech from other sound, and
// written/ (written/written_form.h).
//
// Threads: plain functions. Errors: InputError naming the bundle and the file that is missing, damaged or of a newer
// format; UsageError for requests that lack a part.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/options.h"
#include "hmm/hmm_model.h"
#include "hmm/lexicon.h"

namespace antiphon::pipeline {

struct BundleRequest {
  std::string experiment, model, graph, adapt_graph, weights, graph_arpa, rescore_arpa, g2p, vad, written;
  std::string name, licence, speech, out;

  template <class V>
  void Visit(V& v) {
    v("experiment", experiment, "folder that a recipe made; empty: --model and --graph say what to take");
    v("model", model, "model file; empty: model.safetensors in EXPERIMENT, or in its folder ensemble or network");
    v("graph", graph, "folder that antiphon graph made for it; empty: EXPERIMENT/graph");
    v("adapt-graph", adapt_graph,
      "the Gaussians' own graph, where a chain model's features are adapted by them; empty: "
      "EXPERIMENT/graph-gmm, if it is there");
    v("weights", weights, "weights.toml of a run with --tune; empty: EXPERIMENT/decode-dev's, if it is there");
    v("graph-arpa", graph_arpa, "with --rescore-arpa: the language model that the graph was built with");
    v("rescore-arpa", rescore_arpa, "larger language model that replaces the graph's in each lattice");
    v("g2p", g2p, "what antiphon g2p train made of the lexicon, for words that are not in it");
    v("vad", vad,
      "network of recipes/vad.toml: speech alone is decoded then; empty: EXPERIMENT/vad/network's, if it is there");
    v("written", written, "folder or file of antiphon written, which --written bundle of a recogniser takes");
    v("name", name, "of the recogniser; empty: that of --out");
    v("licence", licence, "under which it may be used");
    v("speech", speech, "what it was trained on, in words");
    v("out", out, "what to write: a file if it ends in .antiphon, else a folder");
  }
};

/// Where the parts are; "" for what it does not hold.
struct BundleParts {
  std::string model, graph, adapt_graph, weights, lexicon, graph_arpa, rescore_arpa, g2p, vad;
  std::vector<std::string> written;  // files
};

/// Whether the place is a bundle, or at least has the name of one.
bool IsBundle(const std::filesystem::path& place);
/// Checks the card, that each file is there whole, and small files' checksums (large ones carry their own).
BundleParts OpenBundle(const std::filesystem::path& place);
/// What the card says.
nlohmann::ordered_json ReadBundleCard(const std::filesystem::path& place);

/// Writes a bundle and returns its card.
nlohmann::ordered_json WriteBundle(const BundleRequest& request);

/// The parts of the bundle at `model`; of a folder that a recipe made, those where recipes leave them; of a model file,
/// that file alone. IoError if there is no bundle of that name.
BundleParts PartsAt(const std::string& model);
/// `given`, or else what the bundle has.
inline void CompleteBy(std::string& given, const std::string& part) {
  if (given.empty()) given = part;
}
/// The same for what a recogniser's options name besides model and graph.
template <class Options>
void CompleteBy(Options& given, const BundleParts& parts) {
  CompleteBy(given.adaptation.graph, parts.adapt_graph);
  if (!given.weighs()) CompleteBy(given.weights, parts.weights);
  given.bundles_weights = parts.weights;
  CompleteBy(given.changes.g2p, parts.g2p);
  CompleteBy(given.vad.model, parts.vad);
  // The bundle's larger model takes the place of its own graph's model, not of another one.
  if (given.rescore_arpa.empty() && given.graph_arpa.empty() && given.changes.source().count() == 0) {
    given.rescore_arpa = parts.rescore_arpa;
    given.graph_arpa = parts.graph_arpa;
  }
}
/// `given`, or else the bundle's; UsageError if there is neither.
std::string GraphOf(const BundleParts& parts, const std::string& given);

/// UsageError if the bundle has no lexicon, or there is none.
void RequireLexicon(const BundleParts& parts);
/// The lexicon that is named, read with `options`; "": that of the bundle's graph, with its own.
std::shared_ptr<const hmm::Lexicon> LexiconOf(const BundleParts& parts, const std::string& named,
                                              const hmm::LexiconOptions& options, const hmm::HmmModel& hmm);

}  // namespace antiphon::pipeline
