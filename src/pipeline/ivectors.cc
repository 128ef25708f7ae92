#include "pipeline/ivectors.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/io_error.h"
#include "base/log.h"
#include "base/same_place.h"
#include "base/thread_pool.h"
#include "data/archive.h"
#include "data/script.h"
#include "data/speaker_vectors.h"
#include "hmm/online_ivector.h"
#include "pipeline/ivector_training.h"

namespace antiphon::pipeline {
namespace {

namespace fs = std::filesystem;

using Extractor = std::shared_ptr<const hmm::IvectorExtractor>;

class IvectorRun {
 public:
  explicit IvectorRun(const IvectorRequest& request) : request_(request), features_(request.features) {}

  IvectorReport Run() {
    if (features_.keys().empty()) {
      Throw<InputError>("'{}' names no utterance: there is no speech to make vectors of", request_.features.features);
    }
    const std::vector<IvectorSpeaker> speakers = Speakers();
    const fs::path file =
        request_.extractor.empty() ? fs::path(request_.out) / "extractor.safetensors" : fs::path(request_.extractor);
    if (request_.extractor.empty()) Train(speakers).Save(file);
    const auto extractor = std::make_shared<const hmm::IvectorExtractor>(hmm::IvectorExtractor::Load(file));
    // One of an earlier run would say that this table has matrices.
    fs::remove(fs::path(request_.out) / "ivectors.toml");
    report_.vectors = request_.online ? WriteOnline(extractor, speakers) : WriteWhole(*extractor, speakers);
    if (request_.online) {
      const MappedFile bytes(file);
      data::WriteSpeakerVectorKind({extractor->options().period, hmm::ExtractorChecksum(bytes.bytes())}, request_.out);
    }
    report_.dim = extractor->dim();
    report_.per = request_.online ? fmt::format("{} frames", extractor->options().period) : request_.per;
    report_.table = (fs::path(request_.out) / "ivectors.scp").string();
    return report_;
  }

 private:
  // In the order of their first utterances. Those after the first speaker_utterances of a speaker are another one's.
  std::vector<IvectorSpeaker> Speakers() const {
    std::vector<IvectorSpeaker> speakers;
    std::unordered_map<std::string, size_t> last;
    const auto most = static_cast<size_t>(request_.speaker_utterances);
    for (const std::string& utt_id : features_.keys()) {
      const std::string name = request_.per == "speaker" ? features_.Speaker(utt_id) : utt_id;
      const auto [it, is_new] = last.try_emplace(name, speakers.size());
      const bool is_full = !is_new && most > 0 && speakers[it->second].utterances.size() >= most;
      if (is_new || is_full) {
        it->second = speakers.size();
        speakers.push_back({name, {}});
      }
      speakers[it->second].utterances.push_back(utt_id);
    }
    return speakers;
  }

  hmm::IvectorExtractor Train(const std::vector<IvectorSpeaker>& speakers) {
    if (std::ssize(speakers) <= request_.training.dim) {
      log::Warn("{} {}s tell little about {} numbers in which they differ: take fewer (--dim)", speakers.size(),
                request_.per, request_.training.dim);
    }
    TrainedExtractor trained = TrainExtractor(request_.training, features_, request_.features.features, speakers,
                                              request_.seed, request_.threads);
    report_.training = {trained.extractor.background().num_gaussians(), trained.gain};
    return std::move(trained.extractor);
  }

  size_t WriteWhole(const hmm::IvectorExtractor& extractor, const std::vector<IvectorSpeaker>& speakers) const {
    // Tables are sorted by their keys.
    std::vector<const IvectorSpeaker*> sorted;
    for (const IvectorSpeaker& speaker : speakers) sorted.push_back(&speaker);
    std::ranges::sort(sorted, {}, [](const IvectorSpeaker* speaker) { return speaker->key; });
    data::TableWriter<std::vector<float>> table(fs::path(request_.out) / "ivectors.ark");
    ParallelInOrder<std::vector<float>>(
        sorted.size(), request_.threads,
        [&](size_t i) { return extractor.Vector(Collect(extractor, features_, *sorted[i])); },
        [&](size_t i, std::vector<float>&& vector) { table.Write(sorted[i]->key, vector); });
    table.Close();
    return sorted.size();
  }

  size_t WriteOnline(const Extractor& extractor, const std::vector<IvectorSpeaker>& speakers) const {
    data::TableWriter<Matrix> table(fs::path(request_.out) / "ivectors.ark");
    size_t vectors = 0;
    ParallelInOrder<std::vector<Matrix>>(
        speakers.size(), request_.threads, [&](size_t i) { return Online(extractor, speakers[i]); },
        [&](size_t i, std::vector<Matrix>&& matrices) {
          for (size_t u = 0; u < matrices.size(); ++u) {
            table.Write(speakers[i].utterances[u], matrices[u]);
            vectors += static_cast<size_t>(matrices[u].rows());
          }
        });
    table.Close();
    return vectors;
  }

  // Of each utterance of the speaker, a row for each period.
  std::vector<Matrix> Online(const Extractor& extractor, const IvectorSpeaker& speaker) const {
    std::vector<Matrix> of_utterances;
    hmm::OnlineIvectorState state;
    const int64_t numbers = extractor->dim(), period = extractor->options().period;
    for (const std::string& utt_id : speaker.utterances) {
      WithContext(
          [&] {
            hmm::OnlineIvectors vectors(extractor, state);
            const Matrix frames = vectors.Accept(features_.Get(utt_id), /*ended=*/true);
            Matrix rows((frames.rows() + period - 1) / period, numbers);
            for (int64_t r = 0; r < rows.rows(); ++r) {
              std::copy_n(frames.Row(r * period).data() + frames.cols() - numbers, numbers, rows.Row(r).data());
            }
            of_utterances.push_back(std::move(rows));
            state = vectors.state();
          },
          [&] { return fmt::format("utterance '{}'", utt_id); });
    }
    return of_utterances;
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

void RequireOneVectorPerSpeaker(const IvectorRequest& request) {
  if (request.online || request.speaker_utterances == 0) return;
  throw UsageError("--speaker-utterances is for vectors that are made --online: a table has one for each speaker");
}

// What an extractor that is there has decided already.
void RequireNoTraining(const IvectorRequest& request) {
  if (request.extractor.empty()) return;
  const Config asked = OptionsToConfig(request.training), usual = OptionsToConfig(IvectorTrainingOptions());
  for (const std::string& key : asked.Keys()) {
    if (asked.AnyAsText(key) == usual.AnyAsText(key)) continue;
    Throw<UsageError>("--{} is for training an extractor, but --extractor gives one: leave one of them out", key);
  }
}

}  // namespace

IvectorReport MakeIvectors(const IvectorRequest& request) {
  RequireOtherTables(request);
  RequireOneVectorPerSpeaker(request);
  RequireNoTraining(request);
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
