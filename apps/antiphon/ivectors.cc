// antiphon ivectors: who speaks, as a vector per speaker for a network to read beside the features.
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/io_error.h"
#include "base/log.h"
#include "base/same_place.h"
#include "base/thread_pool.h"
#include "command.h"
#include "data/archive.h"
#include "data/feature_source.h"
#include "data/script.h"
#include "hmm/ivector.h"

namespace antiphon::app {
namespace {

namespace fs = std::filesystem;

struct IvectorCommandOptions {
  std::string out, extractor;
  std::string per = "speaker";
  int dim = 20;
  int iterations = 10;
  double posterior_scale = 0.1;
  hmm::BackgroundOptions background;
  data::FeatureSourceOptions features;

  template <class V>
  void Visit(V& v) {
    v("out", out, "folder for ivectors.scp and, if one is trained, extractor.safetensors");
    v("extractor", extractor, "extractor of an earlier run; empty: one is trained on these features");
    v("per", per, OneOf{{"speaker", "utterance"}}, "one vector for all that a speaker says, or one for each utterance");
    v("dim", dim, Range{1, 1000}, "numbers in a vector");
    v("iterations", iterations, Range{1, 1000}, "EM iterations for what speakers differ in");
    v("posterior-scale", posterior_scale, Range{1e-6, 1},
      "what a frame counts: frames that follow each other say much the same");
    background.Visit(v);
    features.Visit(v);
  }
};

class IvectorRun {
 public:
  IvectorRun(const IvectorCommandOptions& options, CommandContext& context)
      : options_(options), context_(context), features_(options.features) {}

  void Run() {
    if (features_.keys().empty()) {
      Throw<InputError>("'{}' names no utterance: there is no speech to make vectors of", options_.features.features);
    }
    const hmm::IvectorExtractor extractor =
        options_.extractor.empty() ? Train() : hmm::IvectorExtractor::Load(options_.extractor);
    const std::map<std::string, hmm::GmmStats> stats = Collect(extractor);
    data::TableWriter<std::vector<float>> table(fs::path(options_.out) / "ivectors.ark");
    for (const auto& [key, of_key] : stats) {
      const std::vector<double> mean = extractor.Infer(of_key, options_.posterior_scale).mean;
      table.Write(key, std::vector<float>(mean.begin(), mean.end()));
    }
    table.Close();
    context_.Print("{} vectors of {} numbers, one per {}, in {}", stats.size(), extractor.dim(), options_.per,
                   (fs::path(options_.out) / "ivectors.scp").string());
    result_["vectors"] = stats.size();
    result_["dim"] = extractor.dim();
    context_.SetResult(result_.dump());
  }

 private:
  std::string Key(const std::string& utt_id) const {
    return options_.per == "speaker" ? features_.Speaker(utt_id) : utt_id;
  }

  std::map<std::string, hmm::GmmStats> Collect(const hmm::IvectorExtractor& extractor) const {
    std::map<std::string, hmm::GmmStats> stats;
    const std::vector<std::string>& keys = features_.keys();
    ParallelInOrder<hmm::GmmStats>(
        keys.size(), context_.threads(), [&](size_t i) { return extractor.Collect(features_.Get(keys[i])); },
        [&](size_t i, hmm::GmmStats&& of_utterance) {
          stats.try_emplace(Key(keys[i]), extractor.background()).first->second.Add(of_utterance);
        });
    return stats;
  }

  hmm::IvectorExtractor Train() {
    const std::vector<std::string>& keys = features_.keys();
    const hmm::FrameReader frames{keys.size(), [&](size_t i) { return features_.Get(keys[i]); }};
    hmm::IvectorExtractor extractor(
        hmm::TrainBackground(frames, options_.background, static_cast<uint64_t>(context_.seed())), options_.dim,
        static_cast<uint64_t>(context_.seed()));
    std::vector<hmm::GmmStats> speakers;
    for (auto& [key, stats] : Collect(extractor)) speakers.push_back(stats);
    if (std::ssize(speakers) <= options_.dim) {
      log::Warn("{} {}s tell little about {} numbers in which they differ: take fewer (--dim)", speakers.size(),
                options_.per, options_.dim);
    }
    double gain = 0;
    for (int i = 0; i < options_.iterations; ++i) {
      gain = extractor.Improve(speakers, options_.posterior_scale) / static_cast<double>(speakers.size());
      log::Info("iteration {}: {:.3f} nats per {} over none", i + 1, gain, options_.per);
    }
    extractor.Save(fs::path(options_.out) / "extractor.safetensors");
    result_["gaussians"] = extractor.background().num_gaussians();
    result_["gain"] = gain;
    return extractor;
  }

  const IvectorCommandOptions& options_;
  CommandContext& context_;
  const data::FeatureSource features_;
  nlohmann::json result_;
};

void RequireOtherTables(const IvectorCommandOptions& options) {
  const data::FeatureSourceOptions& read = options.features;
  for (const std::string& table : {read.features, read.cmvn, read.speaker_transforms, read.speaker_vectors}) {
    if (table.empty()) continue;
    for (const char* made : {"ivectors.scp", "ivectors.ark"}) {
      RequireOtherPlace(data::ParseTableName(table).path, fs::path(options.out) / made, "this table");
    }
  }
}

void Ivectors(const IvectorCommandOptions& options, CommandContext& context) {
  RequireOtherTables(options);
  MakeFolder(options.out);
  IvectorRun(options, context).Run();
}

REGISTER_COMMAND(
    "ivectors", IvectorCommandOptions, Ivectors,
    {.summary = "a vector per speaker that a network reads beside the features",
     .description = "Trains an extractor (a mixture of Gaussians, and in which directions speakers move it), or takes "
                    "one, and writes what it makes of each speaker. Give the table to store and decode as "
                    "--speaker-vectors: the network learns to make use of it.",
     .example = "antiphon ivectors --features train/feats.scp --utt2spk train/utt2spk exp/ivectors/train\n"
                "antiphon ivectors --features test/feats.scp --utt2spk test/utt2spk --extractor "
                "exp/ivectors/train/extractor.safetensors exp/ivectors/test",
     .positionals = {"out"},
     .required = {"out", "features"}});

}  // namespace
}  // namespace antiphon::app
