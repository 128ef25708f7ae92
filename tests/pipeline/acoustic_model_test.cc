#include "pipeline/acoustic_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "small_gmm.h"
#include "temporary_folder.h"

namespace antiphon {
namespace {

using ::testing::HasSubstr;
using testing::RandomMatrix;

constexpr int kBaseDim = 2;

// A network on the features of a speaker-adaptive GMM model, with one frame of context on either side.
class AdaptedNetwork : public ::testing::Test {
 protected:
  AdaptedNetwork() {
    gmm_.Save(folder_ / "gmm.safetensors");
    const MappedFile file(folder_ / "gmm.safetensors");
    model_.feature_dim = 3 * kBaseDim;
    model_.left_context = model_.right_context = 1;
    model_.network =
        nn::Network(Config::Parse("layer = [{type = \"affine\"}]", "net.toml"), 9 * kBaseDim, gmm_.hmm.num_pdfs(), 7);
    model_.hmm_json = gmm_.hmm.ToJson();
    model_.log_priors.assign(static_cast<size_t>(gmm_.hmm.num_pdfs()), -1.0F);
    model_.speaker_model.assign(file.bytes().begin(), file.bytes().end());
  }
  std::unique_ptr<AcousticModel> Saved(const nn::Model& model) const {
    model.Save(folder_ / "net.safetensors");
    return AcousticModel::Load(folder_ / "net.safetensors", {});
  }
  // What the same network says of features that were transformed before.
  void ExpectScores(ScoreSource& scores, Matrix features) const {
    nn::Model plain = nn::Model::Load(folder_ / "net.safetensors");
    plain.speaker_model.clear();
    plain.Save(folder_ / "plain.safetensors");
    const auto model = AcousticModel::Load(folder_ / "plain.safetensors", {});
    EXPECT_EQ(model->adaptive(), nullptr);
    const auto expected = model->Score(std::move(features));
    for (int t = 0; t < expected->num_frames_ready(); ++t) {
      for (int pdf = 0; pdf < expected->num_pdfs(); ++pdf) {
        EXPECT_EQ(scores.LogLikelihood(t, pdf), expected->LogLikelihood(t, pdf));
      }
    }
  }

  const testing::TemporaryFolder folder_;
  const hmm::GmmModel gmm_ = testing::SmallAdaptiveModel(kBaseDim);
  const Matrix frames_ = RandomMatrix(20, kBaseDim, 3);
  nn::Model model_;
};

TEST_F(AdaptedNetwork, SeesFramesAfterTheTransforms) {
  const auto model = Saved(model_);
  ASSERT_NE(model->adaptive(), nullptr);
  EXPECT_EQ(model->adaptive()->gmm, gmm_.gmm);
  ExpectScores(*model->Score(frames_), gmm_.transform.Apply(frames_));
  const Matrix transform = RandomMatrix(3 * kBaseDim, 3 * kBaseDim + 1, 4);
  ExpectScores(*model->ScoreAdapted(frames_, transform), gmm_.transform.Then(transform).Apply(frames_));
}

TEST_F(AdaptedNetwork, RefusesASpeakerModelThatDoesNotFit) {
  const auto message = [&](nn::Model& model) -> std::string {
    try {
      Saved(model);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  nn::Model cut = nn::Model::Load((Saved(model_), folder_ / "net.safetensors"));
  cut.speaker_model.resize(cut.speaker_model.size() / 2);
  EXPECT_THAT(message(cut), HasSubstr("speaker_model"));
  testing::SmallAdaptiveModel(3).Save(folder_ / "gmm.safetensors");
  const MappedFile file(folder_ / "gmm.safetensors");
  model_.speaker_model.assign(file.bytes().begin(), file.bytes().end());
  EXPECT_THAT(message(model_), HasSubstr("6 features"));
}

}  // namespace
}  // namespace antiphon
