#include "api/acoustic_model.h"

#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "hmm/gmm.h"
#include "math/safetensors.h"

namespace antiphon {
namespace {

class GmmAcousticModel : public AcousticModel {
 public:
  explicit GmmAcousticModel(hmm::GmmModel model) : model_(std::move(model)) {}

  const hmm::HmmModel& hmm() const override { return model_.hmm; }
  std::string features() const override { return model_.features; }
  std::unique_ptr<ScoreSource> Score(Matrix features, std::shared_ptr<const infer::BoundProfile>) const override {
    return std::make_unique<hmm::GmmScorer>(model_.FirstPassScores(features));
  }
  const hmm::GmmModel* adaptive() const override { return model_.speaker_adaptive() ? &model_ : nullptr; }
  std::unique_ptr<ScoreSource> ScoreAdapted(const Matrix& features, const Matrix& speaker_transform,
                                            std::shared_ptr<const infer::BoundProfile>) const override {
    return std::make_unique<hmm::GmmScorer>(model_.AdaptedScores(features, speaker_transform));
  }

 private:
  hmm::GmmModel model_;
};

class NnetAcousticModel : public AcousticModel {
 public:
  NnetAcousticModel(nn::Model model, const infer::NnetScorerOptions& options)
      : hmm_(hmm::HmmModel::FromJson(model.hmm_json)),
        speaker_model_(SpeakerModel(model)),
        model_(std::make_shared<const infer::NnetModel>(std::move(model), options)) {
    if (hmm_.num_pdfs() != model_->num_pdfs()) {
      Throw<InputError>("the network has {} outputs, its tree {} tied states", model_->num_pdfs(), hmm_.num_pdfs());
    }
  }

  const hmm::HmmModel& hmm() const override { return hmm_; }
  std::string features() const override { return model_->model().feature_config; }
  std::unique_ptr<ScoreSource> Score(Matrix features,
                                     std::shared_ptr<const infer::BoundProfile> profile) const override {
    if (speaker_model_) features = speaker_model_->transform.Apply(features);
    return std::make_unique<infer::NnetScorer>(model_, std::move(features), std::move(profile));
  }
  std::shared_ptr<const infer::NnetModel> network() const override { return model_; }
  const hmm::FeatureTransform* transform() const override {
    return speaker_model_ ? &speaker_model_->transform : nullptr;
  }
  double computed_share() const override { return model_->computed_share(); }
  const hmm::GmmModel* adaptive() const override { return speaker_model_ ? &*speaker_model_ : nullptr; }
  std::unique_ptr<ScoreSource> ScoreAdapted(const Matrix& features, const Matrix& speaker_transform,
                                            std::shared_ptr<const infer::BoundProfile> profile) const override {
    return std::make_unique<infer::NnetScorer>(
        model_, speaker_model_->transform.Then(speaker_transform).Apply(features), std::move(profile));
  }

 private:
  std::optional<hmm::GmmModel> SpeakerModel(const nn::Model& model) const {
    if (model.speaker_model.empty()) return std::nullopt;
    hmm::GmmModel gmm = hmm::GmmModel::Parse(model.speaker_model, "speaker_model");
    if (gmm.transform.out_dim() != model.feature_dim) {
      Throw<InputError>("the network takes {} features per frame, but its speaker model gives {}", model.feature_dim,
                        gmm.transform.out_dim());
    }
    if (gmm.hmm.transitions().num_transition_ids() != hmm_.transitions().num_transition_ids()) {
      Throw<InputError>("the states of the network and of its speaker model are not the same ({} and {} transitions)",
                        hmm_.transitions().num_transition_ids(), gmm.hmm.transitions().num_transition_ids());
    }
    return gmm;
  }

  hmm::HmmModel hmm_;
  std::optional<hmm::GmmModel> speaker_model_;
  std::shared_ptr<const infer::NnetModel> model_;
};

bool IsGmm(const std::filesystem::path& path) {
  return SafetensorsReader(path).MetadataOr("format", "").starts_with("antiphon-gmm");
}

}  // namespace

std::unique_ptr<ScoreSource> AcousticModel::ScoreAdapted(const Matrix&, const Matrix&,
                                                         std::shared_ptr<const infer::BoundProfile>) const {
  CHECK(false) << "this model does not adapt to speakers";
  return nullptr;
}

std::unique_ptr<AcousticModel> AcousticModel::Load(const std::filesystem::path& path,
                                                   const infer::NnetScorerOptions& options) {
  if (IsGmm(path)) return std::make_unique<GmmAcousticModel>(hmm::GmmModel::Load(path));
  return WithContext(
      [&]() -> std::unique_ptr<AcousticModel> {
        nn::Model model = nn::Model::Load(path);
        if (model.hmm_json.empty()) {
          throw InputError(
              "the model carries no phones and states (hmm), which decoding needs; train it from an alignment");
        }
        return std::make_unique<NnetAcousticModel>(std::move(model), options);
      },
      [&] { return fmt::format("'{}'", path.string()); });
}

hmm::HmmModel LoadHmm(const std::filesystem::path& path) {
  return WithContext(
      [&] {
        const std::string json = SafetensorsReader(path).MetadataOr("hmm", "");
        if (json.empty())
          throw InputError("the file carries no phones and states (hmm); is it a model of this program?");
        return hmm::HmmModel::FromJson(json);
      },
      [&] { return fmt::format("'{}'", path.string()); });
}

}  // namespace antiphon
