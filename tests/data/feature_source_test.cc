#include "data/feature_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "data/archive.h"
#include "data/speaker_vectors.h"
#include "feat/cmvn.h"
#include "put_file.h"
#include "small_gmm.h"
#include "temporary_folder.h"

namespace antiphon::data {
namespace {

using ::antiphon::testing::RandomMatrix;
using ::testing::HasSubstr;

void ExpectEqual(const Matrix& found, const Matrix& expected) {
  ASSERT_EQ(found.rows(), expected.rows());
  ASSERT_EQ(found.cols(), expected.cols());
  for (int64_t i = 0; i < found.size(); ++i) EXPECT_EQ(found.data()[i], expected.data()[i]);
}

class AdaptedFeatures : public ::testing::Test {
 protected:
  AdaptedFeatures() {
    TableWriter<Matrix> features(folder_ / "feats.ark");
    features.Write("u", frames_);
    features.Write("v", frames_);
    features.Close();
    TableWriter<Matrix> transforms(folder_ / "fmllr.ark");
    transforms.Write("s", transform_);
    transforms.Close();
    PutFile(folder_ / "utt2spk", "u s\nv t\n");
    model_.Save(folder_ / "model.safetensors");
    options_.features = (folder_ / "feats.scp").string();
    options_.utt2spk = (folder_ / "utt2spk").string();
    options_.speaker_model = (folder_ / "model.safetensors").string();
    options_.speaker_transforms = (folder_ / "fmllr.scp").string();
  }
  std::string Message(const std::string& utt_id) const {
    try {
      FeatureSource(options_).Get(utt_id);
    } catch (const Error& e) {
      return e.what();
    }
    return "nothing was thrown";
  }

  const ::antiphon::testing::TemporaryFolder folder_;
  const hmm::GmmModel model_ = ::antiphon::testing::SmallAdaptiveModel(2);
  const Matrix frames_ = RandomMatrix(30, 2, 5);
  const Matrix transform_ = RandomMatrix(6, 7, 6);
  FeatureSourceOptions options_;
};

TEST_F(AdaptedFeatures, GoThroughTheModelsTransformAndTheSpeakers) {
  ExpectEqual(FeatureSource(options_).Get("u"), model_.transform.Then(transform_).Apply(frames_));
  options_.speaker_transforms.clear();
  ExpectEqual(FeatureSource(options_).Get("v"), model_.transform.Apply(frames_));
}

// By a share of them, with nothing that is known of who speaks: not even a transform that is lacking is missed.
TEST_F(AdaptedFeatures, OfSpeakersTakenForUnknownAreTheUtterancesOwn) {
  TableWriter<DoubleMatrix> stats(folder_ / "cmvn.ark");
  for (const char* speaker : {"s", "t"}) {
    feat::CmvnStats of_speaker(2);
    of_speaker.Add(RandomMatrix(50, 2, 9));
    stats.Write(speaker, of_speaker.matrix());
  }
  stats.Close();
  options_.cmvn = (folder_ / "cmvn.scp").string();
  const Matrix known = FeatureSource(options_).Get("u");
  Matrix own = frames_;
  feat::NormalizeUtterance(own, false);
  options_.unknown_speakers = 1;
  ExpectEqual(FeatureSource(options_).Get("u"), model_.transform.Apply(own));
  ExpectEqual(FeatureSource(options_).Get("v"), model_.transform.Apply(own));
  TableWriter<Matrix> features(folder_ / "feats.ark");
  std::string speakers;
  for (int i = 0; i < 200; ++i) {
    features.Write(fmt::format("u{:03}", i), frames_);
    speakers += fmt::format("u{:03} s\n", i);
  }
  features.Close();
  PutFile(folder_ / "utt2spk", speakers);
  options_.unknown_speakers = 0.3;
  const FeatureSource some(options_);
  int unknown = 0;
  for (const std::string& utt_id : some.keys()) unknown += some.Get(utt_id)(0, 0) == known(0, 0) ? 0 : 1;
  EXPECT_NEAR(unknown, 60, 30);
}

// A transform looks at frames around each, which may lie in the next part. All parts but the last are long.
TEST_F(AdaptedFeatures, InPartsTheyAreTheSame) {
  TableWriter<Matrix> parts(folder_ / "long_feats.ark");
  int64_t first = 0, part = 0;
  for (const int64_t rows : {9, 20, 1}) {
    parts.Write(fmt::format("w:{}", part++), Matrix(frames_.view().Rows(first, rows)));
    first += rows;
  }
  parts.Close();
  PutFile(folder_ / "utt2parts", "w 3 30\n");
  PutFile(folder_ / "utt2spk", "u s\nv t\nw s\n");
  options_.parts = folder_.path().string();
  const FeatureSource features(options_);
  ASSERT_GT(model_.transform.left() + model_.transform.right(), 0);
  ExpectEqual(features.Get("w"), features.Get("u"));
  EXPECT_EQ(features.GetPart("w", 2).rows(), 1);
  EXPECT_EQ(features.keys(), (std::vector<std::string>{"u", "v", "w"}));
}

TEST_F(AdaptedFeatures, VectorsOfSpeakersOrUtterancesStandBehindThem) {
  TableWriter<std::vector<float>> vectors(folder_ / "ivectors.ark");
  vectors.Write("s", {0.5F, -2.0F});
  vectors.Write("v", {3.0F, 4.0F});
  vectors.Close();
  options_.speaker_transforms.clear();
  const Matrix without = FeatureSource(options_).Get("u");
  options_.speaker_vectors = (folder_ / "ivectors.scp").string();
  const FeatureSource source(options_);
  for (const auto& [utt_id, expected] : {std::pair("u", std::pair(0.5F, -2.0F)), {"v", {3.0F, 4.0F}}}) {
    const Matrix with = source.Get(utt_id);
    ASSERT_EQ(with.cols(), without.cols() + 2);
    for (int64_t t = 0; t < with.rows(); ++t) {
      EXPECT_EQ(with(t, 0), without(t, 0));
      EXPECT_EQ(with(t, without.cols()), expected.first);
      EXPECT_EQ(with(t, without.cols() + 1), expected.second);
    }
  }
  TableWriter<std::vector<float>> others(folder_ / "others.ark");
  others.Write("x", {1.0F});
  others.Close();
  options_.speaker_vectors = (folder_ / "others.scp").string();
  EXPECT_THAT(Message("v"), HasSubstr("neither of speaker 't' nor of utterance 'v'"));
}

// Of speech that was still coming: a row for every so many frames.
TEST_F(AdaptedFeatures, VectorsForEachPeriodStandBehindItsFrames) {
  TableWriter<Matrix> vectors(folder_ / "ivectors.ark");
  const Matrix rows = RandomMatrix(3, 2, 8);
  vectors.Write("u", rows);
  vectors.Write("v", Matrix(rows.view().Rows(0, 2)));
  vectors.Close();
  WriteSpeakerVectorKind({13, "0123456789abcdef"}, folder_.path());
  options_.speaker_transforms.clear();
  const Matrix without = FeatureSource(options_).Get("u");
  options_.speaker_vectors = (folder_ / "ivectors.scp").string();
  const FeatureSource source(options_);
  EXPECT_EQ(source.kind().speaker_vector_dim, 2);
  EXPECT_EQ(source.kind().speaker_vectors, "0123456789abcdef");
  const Matrix with = source.Get("u");
  ASSERT_EQ(with.rows(), 30);
  for (int64_t t = 0; t < 30; ++t) {
    for (int64_t c = 0; c < 2; ++c) EXPECT_EQ(with(t, without.cols() + c), rows(t / 13, c)) << t;
  }
  EXPECT_THAT(Message("v"), HasSubstr("2 vectors of utterance 'v', each for 13 frames, but it has 30 frames"));
  PutFile(folder_ / "ivectors.toml", "period = 0\n");
  EXPECT_THROW(FeatureSource{options_}, InputError);
}

TEST_F(AdaptedFeatures, ErrorsNameSpeakerUtteranceAndOption) {
  EXPECT_THAT(Message("v"), HasSubstr("no transform of speaker 't'"));
  EXPECT_THAT(Message("v"), HasSubstr("utterance 'v'"));
  options_.speaker_model.clear();
  EXPECT_THAT(Message("u"), HasSubstr("--speaker-model"));
}

}  // namespace
}  // namespace antiphon::data
