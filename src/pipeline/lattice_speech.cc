#include "pipeline/lattice_speech.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "base/config.h"
#include "base/error.h"
#include "data/feature_kind.h"
#include "feat/front_end.h"
#include "hmm/gmm.h"
#include "nn/model.h"
#include "pipeline/align_source.h"
#include "pipeline/bundle.h"
#include "train/warm_start.h"

namespace antiphon::pipeline {
namespace {

namespace fs = std::filesystem;

// Of a front end's description; a model that does not know its features has Kaldi's.
double FrameSeconds(const std::string& front_end) {
  return ReadOptions<feat::FrontEndOptions>(Config::Parse(front_end, "the model's features")).frame_shift_ms / 1000.0;
}

class StoreByNetwork : public LatticeSpeech {
 public:
  StoreByNetwork(const std::string& model, const std::string& place, const data::FrameStoreAccess& access,
                 const infer::NnetScorerOptions& options)
      : model_(std::make_shared<const infer::NnetModel>(nn::Model::Load(PartsAt(model).model), options)),
        store_(place, access) {
    if (store_.feat_dim() != model_->model().feature_dim) {
      Throw<InputError>("the store '{}' has {} features per frame, the model '{}' takes {}", place, store_.feat_dim(),
                        model, model_->model().feature_dim);
    }
    if (model_->subsampling() > 1) {
      Throw<UsageError>(
          "'{}' gives a search a frame for every {} of the store: sequence training by lattices needs all", model,
          model_->subsampling());
    }
    data::RequireKind(store_, train::KindTakenBy(model_->model()), fmt::format("'{}'", model));
  }

  size_t size() const override { return store_.utterances().size(); }
  std::string UttId(size_t i) const override { return store_.utterances()[i].utt_id; }
  std::unique_ptr<ScoreSource> Scores(size_t i) const override {
    Matrix frames(store_.utterances()[i].num_frames, store_.feat_dim());
    store_.ReadFrames(i, 0, frames);
    return std::make_unique<infer::NnetScorer>(model_, std::move(frames));
  }
  double frame_seconds() const override { return FrameSeconds(model_->model().feature_config); }

 private:
  std::shared_ptr<const infer::NnetModel> model_;
  data::FrameStore store_;
};

class TablesByMixtures : public LatticeSpeech {
 public:
  TablesByMixtures(const std::string& model, const std::string& data, const data::FeatureSourceOptions& tables)
      : model_(hmm::GmmModel::Load(model)), features_(TablesForMixtures(model, model_, data, tables)) {}

  size_t size() const override { return features_.keys().size(); }
  std::string UttId(size_t i) const override { return features_.keys()[i]; }
  std::unique_ptr<ScoreSource> Scores(size_t i) const override {
    return std::make_unique<hmm::GmmScorer>(model_.gmm, features_.Get(features_.keys()[i]));
  }
  double frame_seconds() const override { return FrameSeconds(model_.features); }

 private:
  hmm::GmmModel model_;
  data::FeatureSource features_;
};

}  // namespace

std::unique_ptr<const LatticeSpeech> StoredSpeech(const std::string& model, const std::string& place,
                                                  const data::FrameStoreAccess& access,
                                                  const infer::NnetScorerOptions& options) {
  return std::make_unique<StoreByNetwork>(model, place, access, options);
}

std::unique_ptr<const LatticeSpeech> MixtureSpeech(const std::string& model, const std::string& data,
                                                   const data::FeatureSourceOptions& tables) {
  return std::make_unique<TablesByMixtures>(model, data, tables);
}

data::FeatureSourceOptions TablesForMixtures(const std::string& file, const hmm::GmmModel& model,
                                             const std::string& data, const data::FeatureSourceOptions& given) {
  if (!given.speaker_model.empty() && given.speaker_model != file) {
    Throw<UsageError>("--speaker-model '{}': the features go through the transform of '{}' itself", given.speaker_model,
                      file);
  }
  data::FeatureSourceOptions tables = FindTables(data, given);
  data::RequireFrontEnd(data::FrontEndBeside(tables.features), fmt::format("'{}'", tables.features), model.features,
                        fmt::format("'{}'", file));
  tables.speaker_model = file;
  if (!model.speaker_adaptive() || !tables.speaker_transforms.empty()) return tables;
  const fs::path beside = fs::path(file).parent_path() / "fmllr.scp";
  if (!fs::exists(beside)) {
    Throw<UsageError>(
        "'{}' adapts to speakers: name their transforms with --speaker-transforms (fmllr.scp, which antiphon align "
        "leaves beside the model)",
        file);
  }
  tables.speaker_transforms = beside.string();
  return tables;
}

}  // namespace antiphon::pipeline
