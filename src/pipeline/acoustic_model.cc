#include "pipeline/acoustic_model.h"

#include <optional>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "hmm/feature_transform_stream.h"
#include "hmm/gmm.h"
#include "hmm/gmm_fmllr.h"
#include "math/safetensors.h"
#include "train/warm_start.h"

namespace antiphon {
namespace {

class GmmStream : public ScoreStream {
 public:
  GmmStream(const hmm::GmmSet& gmm, hmm::FeatureTransform transform) : transform_(std::move(transform)), scorer_(gmm) {}
  void Accept(ConstMatrixView features, bool ended) override {
    scorer_.Accept(transform_.Accept(features, ended), ended);
  }
  int num_pdfs() const override { return scorer_.num_pdfs(); }
  int num_frames_ready() const override { return scorer_.num_frames_ready(); }
  bool IsLastFrame(int frame) const override { return scorer_.IsLastFrame(frame); }
  float LogLikelihood(int frame, int32_t pdf_id) override { return scorer_.LogLikelihood(frame, pdf_id); }
  std::span<const float> DenseFrame(int frame) override { return scorer_.DenseFrame(frame); }

 private:
  hmm::FeatureTransformStream transform_;
  hmm::GmmStreamScorer scorer_;
};

class NnetStream : public ScoreStream {
 public:
  /// `extractor` (null: none) and `heard` as AcousticModel::Score.
  NnetStream(std::shared_ptr<const infer::NnetModel> model, std::optional<hmm::FeatureTransform> transform,
             std::shared_ptr<const infer::BoundProfile> profile, std::shared_ptr<const hmm::IvectorExtractor> extractor,
             hmm::OnlineIvectorState* heard)
      : scorer_(std::move(model), std::move(profile)), extractor_(std::move(extractor)), heard_(heard) {
    if (transform) transform_.emplace(std::move(*transform));
    if (extractor_) vectors_.emplace(extractor_, heard != nullptr ? *heard : hmm::OnlineIvectorState());
  }
  void Accept(ConstMatrixView features, bool ended) override {
    if (transform_) {
      scorer_.Accept(transform_->Accept(features, ended));
    } else if (extractor_ && !HasVectors(features)) {
      scorer_.Accept(vectors_->Accept(features, ended));
      if (ended && heard_ != nullptr) *heard_ = vectors_->state();
    } else {
      scorer_.Accept(features);
    }
    if (ended) scorer_.Finish();
  }
  int num_pdfs() const override { return scorer_.num_pdfs(); }
  int num_frames_ready() const override { return scorer_.num_frames_ready(); }
  bool IsLastFrame(int frame) const override { return scorer_.IsLastFrame(frame); }
  float LogLikelihood(int frame, int32_t pdf_id) override { return scorer_.LogLikelihood(frame, pdf_id); }
  std::span<const float> DenseFrame(int frame) override { return scorer_.DenseFrame(frame); }
  void Request(int frame, std::span<const int32_t> pdf_ids) override { scorer_.Request(frame, pdf_ids); }

 private:
  bool HasVectors(ConstMatrixView features) const {
    return features.cols() == extractor_->feature_dim() + extractor_->dim();
  }

  std::optional<hmm::FeatureTransformStream> transform_;
  infer::NnetScorer scorer_;
  std::shared_ptr<const hmm::IvectorExtractor> extractor_;
  std::optional<hmm::OnlineIvectors> vectors_;
  hmm::OnlineIvectorState* heard_;
};

class GmmAcousticModel : public AcousticModel {
 public:
  explicit GmmAcousticModel(hmm::GmmModel model) : model_(std::move(model)) {}

  const hmm::HmmModel& hmm() const override { return model_.hmm; }
  std::string features() const override { return model_.features; }
  std::unique_ptr<ScoreSource> Score(Matrix features, std::shared_ptr<const infer::BoundProfile>,
                                     hmm::OnlineIvectorState*) const override {
    return std::make_unique<hmm::GmmScorer>(model_.FirstPassScores(features));
  }
  std::unique_ptr<ScoreStream> Stream(std::shared_ptr<const infer::BoundProfile>, const Matrix* speaker_transform,
                                      hmm::OnlineIvectorState*) const override {
    return StreamOf(model_, speaker_transform);
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
        extractor_(Extractor(model)),
        model_(std::make_shared<const infer::NnetModel>(std::move(model), options)) {
    if (hmm_.num_pdfs() != model_->num_pdfs()) {
      Throw<InputError>("the network has {} outputs, its tree {} tied states", model_->num_pdfs(), hmm_.num_pdfs());
    }
  }

  const hmm::HmmModel& hmm() const override { return hmm_; }
  std::string features() const override { return model_->model().feature_config; }
  std::unique_ptr<ScoreSource> Score(Matrix features, std::shared_ptr<const infer::BoundProfile> profile,
                                     hmm::OnlineIvectorState* heard) const override {
    if (speaker_model_) features = speaker_model_->transform.Apply(features);
    if (extractor_ && features.cols() != extractor_->feature_dim() + extractor_->dim()) {
      hmm::OnlineIvectors vectors(extractor_, heard != nullptr ? *heard : hmm::OnlineIvectorState());
      features = vectors.Accept(features, /*ended=*/true);
      if (heard != nullptr) *heard = vectors.state();
    }
    return std::make_unique<infer::NnetScorer>(model_, std::move(features), std::move(profile));
  }
  std::unique_ptr<ScoreStream> Stream(std::shared_ptr<const infer::BoundProfile> profile,
                                      const Matrix* speaker_transform, hmm::OnlineIvectorState* heard) const override {
    std::optional<hmm::FeatureTransform> transform;
    if (speaker_model_) transform = speaker_model_->transform;
    if (speaker_transform != nullptr) transform = speaker_model_->transform.Then(*speaker_transform);
    return std::make_unique<NnetStream>(model_, std::move(transform), std::move(profile), extractor_, heard);
  }
  std::shared_ptr<const infer::NnetModel> network() const override { return model_; }
  const hmm::FeatureTransform* transform() const override {
    return speaker_model_ ? &speaker_model_->transform : nullptr;
  }
  std::shared_ptr<const hmm::IvectorExtractor> ivectors() const override { return extractor_; }
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
    return gmm;
  }

  static std::shared_ptr<const hmm::IvectorExtractor> Extractor(const nn::Model& model) {
    if (model.ivector_extractor.empty()) return nullptr;
    auto extractor = std::make_shared<const hmm::IvectorExtractor>(
        hmm::IvectorExtractor::Parse(model.ivector_extractor, "ivector_extractor"));
    if (extractor->feature_dim() + extractor->dim() != model.feature_dim) {
      Throw<InputError>(
          "the network takes {} features per frame, but its i-vector extractor is for {} and gives {} more",
          model.feature_dim, extractor->feature_dim(), extractor->dim());
    }
    if (!model.speaker_model.empty())
      throw InputError("the network has both a speaker model and an i-vector extractor");
    return extractor;
  }

  hmm::HmmModel hmm_;
  std::optional<hmm::GmmModel> speaker_model_;
  std::shared_ptr<const hmm::IvectorExtractor> extractor_;
  std::shared_ptr<const infer::NnetModel> model_;
};

}  // namespace

bool IsGmm(const std::filesystem::path& path) {
  return SafetensorsReader(path).MetadataOr("format", "").starts_with("antiphon-gmm");
}

std::string AcousticModel::normalisation() const {
  const auto scored = network();
  return scored ? train::NormalisationTakenBy(scored->model()) : "";
}

const hmm::FmllrEstimator& AcousticModel::expected_speech() const {
  std::call_once(expected_once_, [&] { expected_speech_ = hmm::ExpectedSpeech(*adaptive()); });
  return *expected_speech_;
}

std::unique_ptr<ScoreSource> AcousticModel::ScoreAdapted(const Matrix&, const Matrix&,
                                                         // NOLINTNEXTLINE(performance-unnecessary-value-param)
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

std::unique_ptr<ScoreStream> StreamOf(const hmm::GmmModel& model, const Matrix* speaker_transform) {
  if (speaker_transform != nullptr)
    return std::make_unique<GmmStream>(model.gmm, model.transform.Then(*speaker_transform));
  return std::make_unique<GmmStream>(model.first_pass ? *model.first_pass : model.gmm, model.transform);
}

}  // namespace antiphon
