// antiphon gmm-bmmi: discriminative training of Gaussian mixtures by the lattices of antiphon lattices.
#include "train/gmm_bmmi.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/io_error.h"
#include "base/log.h"
#include "command.h"
#include "data/feature_source.h"
#include "hmm/gmm_model.h"
#include "pipeline/acoustic_model.h"
#include "pipeline/lattice_speech.h"
#include "train/sequence_data.h"

namespace antiphon::app {
namespace {

namespace fs = std::filesystem;

struct GmmBmmiCommandOptions {
  std::string model, data, lattices, out;
  train::BmmiOptions training;
  data::FeatureSourceOptions features;

  template <class V>
  void Visit(V& v) {
    v("model", model, "Gaussian mixtures to begin with, which the lattices were made by");
    v("data", data, "folder with the features of the lattices' speech (feats.scp, cmvn.scp, utt2spk)");
    v("lattices", lattices, "folder that antiphon lattices made by the model");
    v("out", out, "folder for model.safetensors and report.json");
    training.Visit(v);
    features.Visit(v);
  }
};

nlohmann::ordered_json ToJson(const train::BmmiReport& report, size_t without_features) {
  nlohmann::ordered_json iterations = nlohmann::ordered_json::array();
  for (const train::BmmiIteration& i : report.iterations) {
    iterations.push_back({{"criterion", i.criterion},
                          {"numerator", i.numerator},
                          {"denominator", i.denominator},
                          {"updated", i.update.updated},
                          {"slowed", i.update.slowed},
                          {"floored", i.update.floored},
                          {"updated_weights", i.update.updated_weights},
                          {"seconds", i.seconds}});
  }
  return {{"utterances", report.utterances},
          {"frames", report.frames},
          {"without_features", without_features},
          {"without_reference", report.without_reference.size()},
          {"iterations", iterations}};
}

void TrainByBmmi(const GmmBmmiCommandOptions& options, CommandContext& context) {
  if (!IsGmm(options.model)) {
    Throw<UsageError>(
        "'{}' is not a model of Gaussian mixtures; a network learns by antiphon train --set sequence.criterion=mmi",
        options.model);
  }
  std::error_code ignored;
  if (fs::equivalent(options.model, fs::path(options.out) / "model.safetensors", ignored)) {
    Throw<UsageError>("'{}' is the model to begin with: give another folder", options.out);
  }
  const auto initial = hmm::GmmModel::Load(options.model);
  const train::SequenceData lattices(options.lattices, initial.hmm);
  const data::FeatureSource features(
      pipeline::TablesForMixtures(options.model, initial, options.data, options.features));
  std::vector<std::string> known, without_features;
  for (const std::string& utt_id : lattices.utt_ids())
    (features.Has(utt_id) ? known : without_features).push_back(utt_id);
  if (known.empty()) {
    Throw<InputError>("none of the {} utterances that '{}' has lattices of has features in '{}'",
                      without_features.size(), options.lattices, options.data);
  }
  if (!without_features.empty()) {
    log::Warn("{} utterances have a lattice but no features, and are left out, the first: {}", without_features.size(),
              without_features[0]);
  }
  train::BmmiSpeech speech;
  speech.count = known.size();
  speech.utt_id = [&](size_t i) { return known[i]; };
  speech.frames = [&](size_t i) { return features.Get(known[i]); };
  speech.entry = [&](size_t i) { return lattices.Get(known[i]); };
  train::BmmiReport report;
  const hmm::GmmModel model = train::TrainBmmi(
      initial, speech, options.training, context.threads(), [](const std::string& line) { log::Info("{}", line); },
      &report);
  if (!report.without_reference.empty()) {
    log::Warn("{} utterances were left out, as their lattices lack their reference, the first: {}",
              report.without_reference.size(), report.without_reference[0]);
  }
  MakeFolder(options.out);
  const fs::path file = fs::path(options.out) / "model.safetensors";
  model.Save(file);
  const nlohmann::ordered_json json = ToJson(report, without_features.size());
  WriteFileAtomically(fs::path(options.out) / "report.json", json.dump(2) + "\n");
  context.Print(
      "{} after {} iterations over {} utterances: criterion from {:.4f} to {:.4f} nats per frame before the last "
      "update",
      file.string(), report.iterations.size(), report.utterances, report.iterations.front().criterion,
      report.iterations.back().criterion);
  context.SetResult(json.dump());
}

REGISTER_COMMAND(
    "gmm-bmmi", GmmBmmiCommandOptions, TrainByBmmi,
    {.summary = "train Gaussian mixtures discriminatively (boosted MMI)",
     .description = "Raises the posterior of each utterance's transcript among the paths of its lattice, by extended "
                    "Baum-Welch updates of means, variances and weights. States, transitions and the transform of the "
                    "features stay, so that graphs and speakers' transforms of the first model fit the new one. A "
                    "speaker-adaptive model keeps the mixtures of its first pass.",
     .example = "antiphon lattices --model exp/align/model.safetensors --graph exp/graph-unigram --data feats/train "
                "--text data/train/text exp/lattices-gmm\n"
                "antiphon gmm-bmmi --model exp/align/model.safetensors --data feats/train --lattices exp/lattices-gmm "
                "exp/bmmi",
     .positionals = {"out"},
     .required = {"model", "data", "lattices", "out"},
     .common = {"iterations", "acoustic-scale", "boost", "tau", "features", "cmvn", "utt2spk", "speaker-transforms"}});

}  // namespace
}  // namespace antiphon::app
