// A speaker's transform, learnt while they speak: what estimating it from the same speech at once gives, over one
// utterance or several; and what says nothing of the speaker.
#include "pipeline/speaker_learning.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/error.h"
#include "hmm/gmm_fmllr.h"
#include "pipeline/speaker_transforms.h"
#include "small_gmm.h"
#include "temporary_folder.h"

namespace antiphon::pipeline {
namespace {

using testing::RandomMatrix;

constexpr int kDim = 4;
constexpr int kPhones = 40;

class SpeakerLearningTest : public ::testing::Test {
 protected:
  SpeakerLearningTest() {
    gmm_.features = "kind = 'mfcc'\n";
    gmm_.Save(folder_ / "gmm.safetensors");
    model_ = AcousticModel::Load(folder_ / "gmm.safetensors", {});
  }

  // SIL A B A B … SIL, a word for each phone.
  decode::Recognition Said() const {
    const hmm::PhoneSet& phones = gmm_.hmm.phones();
    decode::Recognition said;
    said.times.phones.push_back({phones.Find("SIL"), 0, 0, -1});
    for (int p = 0; p < kPhones; ++p) {
      said.times.phones.push_back({phones.Find(p % 2 == 0 ? "A" : "B"), 0, 0, p});
      said.best.words.push_back(1);
      said.confidences.push_back(0.9);
    }
    said.times.phones.push_back({phones.Find("SIL"), 0, 0, -1});
    return said;
  }
  std::vector<int32_t> FirstPassAlignment(const Matrix& features) const {
    std::vector<hmm::AlignGraph::Instance> phones;
    for (const decode::TimedPhone& phone : Said().times.phones) phones.push_back({phone.phone, phone.word_index});
    hmm::GmmScorer scores = gmm_.FirstPassScores(features);
    return hmm::Align(gmm_.hmm, hmm::BuildPhoneSequenceGraph(gmm_.hmm, phones), scores, {}).transition_ids;
  }

  const testing::TemporaryFolder folder_;
  hmm::GmmModel gmm_ = testing::SmallAdaptiveModel(kDim, /*variance=*/100.0F);  // random speech has a path, too
  std::unique_ptr<AcousticModel> model_;
};

void ExpectNear(const Matrix& a, const Matrix& b) {
  ASSERT_EQ(a.rows(), b.rows());
  ASSERT_EQ(a.cols(), b.cols());
  for (int64_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a.data()[i], b.data()[i], 1e-5) << i;
}

TEST_F(SpeakerLearningTest, TheFirstUtteranceGivesWhatEstimatingFromItGives) {
  const Matrix features = RandomMatrix(900, kDim, 5);
  SpeakerLearning learning(*model_);
  EXPECT_EQ(learning.transform(), nullptr);
  EXPECT_TRUE(learning.Learn(features, Said()));
  ASSERT_NE(learning.transform(), nullptr);
  const std::vector<int32_t> alignment = FirstPassAlignment(features);
  ASSERT_FALSE(alignment.empty());
  const hmm::FmllrPrior prior{.statistics = &model_->expected_speech(), .weight = kSpeakerPriorFrames};
  ExpectNear(*learning.transform(),
             hmm::EstimateSpeakerTransform(gmm_, {{testing::InParts(features, alignment)}}, 30, prior));
}

TEST_F(SpeakerLearningTest, AnEstimateWaitsForMoreSpeech) {
  SpeakerLearning learning(*model_);
  decode::Recognition hardly_sure = Said();
  for (int word = 3; word < kPhones; ++word) hardly_sure.confidences[static_cast<size_t>(word)] = 0.1;
  EXPECT_FALSE(learning.Learn(RandomMatrix(200, kDim, 1), hardly_sure)) << "too little";
  EXPECT_GT(learning.learnt().heard.posterior, 0);
  EXPECT_TRUE(learning.Learn(RandomMatrix(600, kDim, 2), Said()));
  const double estimated_from = learning.learnt().estimated_from;
  const Matrix before = *learning.transform();
  EXPECT_FALSE(learning.Learn(RandomMatrix(150, kDim, 3), Said())) << "not a quarter more";
  EXPECT_EQ(learning.learnt().estimated_from, estimated_from);
  ExpectNear(*learning.transform(), before);
  EXPECT_TRUE(learning.Learn(RandomMatrix(300, kDim, 4), Said()));
  EXPECT_GE(learning.learnt().estimated_from, 1.25 * estimated_from);
}

TEST_F(SpeakerLearningTest, GoesOnFromWhatWasLearnt) {
  SpeakerLearning learning(*model_);
  learning.Learn(RandomMatrix(700, kDim, 1), Said());
  SpeakerLearning later(*model_, learning.learnt());
  EXPECT_EQ(later.learnt(), learning.learnt());
  const Matrix more = RandomMatrix(800, kDim, 2);
  EXPECT_TRUE(learning.Learn(more, Said()));
  EXPECT_TRUE(later.Learn(more, Said()));
  EXPECT_EQ(later.learnt(), learning.learnt());
  LearntTransform spoilt = learning.learnt();
  spoilt.transform.pop_back();
  EXPECT_THROW(SpeakerLearning(*model_, spoilt), ShapeError);
  spoilt = learning.learnt();
  spoilt.heard.linear.pop_back();
  EXPECT_THROW(SpeakerLearning(*model_, spoilt), ShapeError);
}

TEST_F(SpeakerLearningTest, NothingIsLearntWithoutWordsOrFromUnsureOnes) {
  SpeakerLearning learning(*model_);
  const Matrix features = RandomMatrix(900, kDim, 5);
  EXPECT_FALSE(learning.Learn(features, {}));
  EXPECT_FALSE(learning.Learn(Matrix(), Said()));
  EXPECT_FALSE(learning.Learn(RandomMatrix(20, kDim, 5), Said())) << "shorter than its phones";
  decode::Recognition unsure = Said();
  for (double& confidence : unsure.confidences) confidence = 0.4;
  EXPECT_FALSE(learning.Learn(features, unsure));
  EXPECT_EQ(learning.learnt(), LearntTransform());
  unsure.confidences.clear();
  EXPECT_FALSE(learning.Learn(features, unsure)) << "there are no confidences";
  EXPECT_EQ(learning.learnt(), LearntTransform());
  unsure = Said();
  for (double& confidence : unsure.confidences) confidence = 0.4;
  unsure.confidences.front() = 0.6;
  learning.Learn(features, unsure);
  const double of_one = learning.learnt().heard.posterior;
  EXPECT_GT(of_one, 0);
  EXPECT_LT(of_one, 300);
}

}  // namespace
}  // namespace antiphon::pipeline
