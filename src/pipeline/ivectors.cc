#include "pipeline/ivectors.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/io_error.h"
#include "base/log.h"
#include "base/same_place.h"
#include "base/thread_pool.h"
#include "data/archive.h"
#include "data/script.h"

namespace antiphon::pipeline {
namespace {

namespace fs = std::filesystem;

class IvectorRun {
 public:
  explicit IvectorRun(const IvectorRequest& request) : request_(request), features_(request.features) {}

  IvectorReport Run() {
    if (features_.keys().empty()) {
      Throw<InputError>("'{}' names no utterance: there is no speech to make vectors of", request_.features.features);
    }
    const hmm::IvectorExtractor extractor =
        request_.extractor.empty() ? Train() : hmm::IvectorExtractor::Load(request_.extractor);
    const std::map<std::string, hmm::GmmStats> stats = Collect(extractor);
    data::TableWriter<std::vector<float>> table(fs::path(request_.out) / "ivectors.ark");
    for (const auto& [key, of_key] : stats) {
      const std::vector<double> mean = extractor.Infer(of_key, request_.posterior_scale).mean;
      table.Write(key, std::vector<float>(mean.begin(), mean.end()));
    }
    table.Close();
    report_.vectors = stats.size();
    report_.dim = extractor.dim();
    report_.per = request_.per;
    report_.table = (fs::path(request_.out) / "ivectors.scp").string();
    return report_;
  }

 private:
  std::string Key(const std::string& utt_id) const {
    return request_.per == "speaker" ? features_.Speaker(utt_id) : utt_id;
  }

  std::map<std::string, hmm::GmmStats> Collect(const hmm::IvectorExtractor& extractor) const {
    std::map<std::string, hmm::GmmStats> stats;
    const std::vector<std::string>& keys = features_.keys();
    ParallelInOrder<hmm::GmmStats>(
        keys.size(), request_.threads, [&](size_t i) { return extractor.Collect(features_.Get(keys[i])); },
        [&](size_t i, hmm::GmmStats&& of_utterance) {
          stats.try_emplace(Key(keys[i]), extractor.background()).first->second.Add(of_utterance);
        });
    return stats;
  }

  hmm::IvectorExtractor Train() {
    const std::vector<std::string>& keys = features_.keys();
    const hmm::FrameReader frames{keys.size(), [&](size_t i) { return features_.Get(keys[i]); }};
    hmm::IvectorExtractor extractor(hmm::TrainBackground(frames, request_.background, request_.seed), request_.dim,
                                    request_.seed);
    std::vector<hmm::GmmStats> speakers;
    for (auto& [key, stats] : Collect(extractor)) speakers.push_back(stats);
    if (std::ssize(speakers) <= request_.dim) {
      log::Warn("{} {}s tell little about {} numbers in which they differ: take fewer (--dim)", speakers.size(),
                request_.per, request_.dim);
    }
    double gain = 0;
    for (int i = 0; i < request_.iterations; ++i) {
      gain = extractor.Improve(speakers, request_.posterior_scale) / static_cast<double>(speakers.size());
      log::Info("iteration {}: {:.3f} nats per {} over none", i + 1, gain, request_.per);
    }
    extractor.Save(fs::path(request_.out) / "extractor.safetensors");
    report_.training = {extractor.background().num_gaussians(), gain};
    return extractor;
  }

  const IvectorRequest& request_;
  const data::FeatureSource features_;
  IvectorReport report_;
};

void RequireOtherTables(const IvectorRequest& request) {
  const data::FeatureSourceOptions& read = request.features;
  for (const std::string& table : {read.features, read.cmvn, read.speaker_transforms, read.speaker_vectors}) {
    if (table.empty()) continue;
    for (const char* made : {"ivectors.scp", "ivectors.ark"}) {
      RequireOtherPlace(data::ParseTableName(table).path, fs::path(request.out) / made, "this table");
    }
  }
}

}  // namespace

IvectorReport MakeIvectors(const IvectorRequest& request) {
  RequireOtherTables(request);
  MakeFolder(request.out);
  return IvectorRun(request).Run();
}

nlohmann::json ToJson(const IvectorReport& report) {
  nlohmann::json json = {{"vectors", report.vectors}, {"dim", report.dim}};
  if (report.training) {
    json["gaussians"] = report.training->gaussians;
    json["gain"] = report.training->gain;
  }
  return json;
}

std::string Sentence(const IvectorReport& report) {
  return fmt::format("{} vectors of {} numbers, one per {}, in {}", report.vectors, report.dim, report.per,
                     report.table);
}

}  // namespace antiphon::pipeline
