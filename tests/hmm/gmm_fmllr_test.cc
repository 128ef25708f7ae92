// Speakers' transforms from speech of any length.
#include "hmm/gmm_fmllr.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "peak_memory.h"
#include "random_matrix.h"
#include "sanitized.h"
#include "small_gmm.h"

namespace antiphon::hmm {
namespace {

constexpr int kBaseDim = 4;

// All states of A and B in turn, with silence in between.
std::vector<int32_t> AnyAlignment(const HmmModel& hmm, int64_t frames) {
  std::vector<int32_t> ids(static_cast<size_t>(frames));
  for (size_t t = 0; t < ids.size(); ++t)
    ids[t] = 1 + static_cast<int32_t>(t / 3) % hmm.transitions().num_transition_ids();
  return ids;
}

// The definition: both passes over the whole utterance at once.
Matrix TransformOfTheWhole(const GmmModel& model, const Matrix& base, std::span<const int32_t> alignment) {
  const std::vector<int32_t> pdfs = SpeechPdfs(model.hmm, alignment);
  const Matrix frames = model.transform.Apply(base);
  FmllrEstimator first(model.gmm.dim());
  AccumulateFmllr(*model.first_pass, frames, frames, pdfs, first);
  Matrix adapted(frames.rows(), frames.cols());
  ApplyAffine(first.Estimate().transform, frames, adapted);
  FmllrEstimator second(model.gmm.dim());
  AccumulateFmllr(model.gmm, adapted, frames, pdfs, second);
  return second.Estimate().transform;
}

Matrix TransformInParts(const GmmModel& model, const Matrix& base, std::span<const int32_t> alignment,
                        int64_t rows = 1 << 30) {
  const SpeakerUtterance utterance = testing::InParts(base, alignment, rows);
  return EstimateSpeakerTransform(model, {&utterance, 1});
}

TEST(SpeakerTransform, OfLongSpeechIsThatOfTheWhole) {
  const GmmModel model = testing::SmallAdaptiveModel(kBaseDim);
  for (const int64_t frames : {1000, 40000}) {
    const Matrix base = testing::RandomMatrix(frames, kBaseDim, 7);
    const std::vector<int32_t> alignment = AnyAlignment(model.hmm, frames);
    const Matrix expected = TransformOfTheWhole(model, base, alignment);
    for (const int64_t rows : {1, 700, 1 << 30}) {
      if (frames / rows > 1000) continue;
      const Matrix found = TransformInParts(model, base, alignment, rows);
      ASSERT_EQ(found.cols(), expected.cols());
      for (int64_t i = 0; i < expected.size(); ++i)
        EXPECT_NEAR(found.data()[i], expected.data()[i], 1e-4) << frames << " in parts of " << rows;
    }
  }
}

TEST(SpeakerTransform, FramesWithoutAPathDoNotCount) {
  const GmmModel model = testing::SmallAdaptiveModel(kBaseDim);
  const Matrix base = testing::RandomMatrix(3000, kBaseDim, 7);
  std::vector<int32_t> lost = AnyAlignment(model.hmm, base.rows());
  std::vector<int32_t> silent = lost;
  int32_t silence = 1;
  while (!model.hmm.phones().IsSilence(model.hmm.transitions().Phone(silence))) ++silence;
  std::fill(lost.begin() + 1000, lost.begin() + 2000, 0);
  std::fill(silent.begin() + 1000, silent.begin() + 2000, silence);
  const Matrix found = TransformInParts(model, base, lost), expected = TransformInParts(model, base, silent);
  EXPECT_NE(found(0, 0), 1.0F);
  for (int64_t i = 0; i < expected.size(); ++i) EXPECT_EQ(found.data()[i], expected.data()[i]);
}

// Of the Gaussians that are spoken, each pdf-id's as many.
TEST(ExpectedSpeech, IsThatOfWhatIsNotSilence) {
  const GmmModel small = testing::SmallAdaptiveModel(kBaseDim);
  const std::vector<bool> spoken = SpokenPdfs(small.hmm);
  // Two Gaussians for each pdf-id, far from each other's.
  const int num_pdfs = small.gmm.num_pdfs();
  std::vector<int32_t> first = {0};
  std::vector<float> weights, frames;
  Matrix means(2 * num_pdfs, kBaseDim), variances(2 * num_pdfs, kBaseDim);
  const auto count = static_cast<float>(std::ranges::count(spoken, true));
  ASSERT_LT(count, num_pdfs);
  for (int pdf = 0; pdf < num_pdfs; ++pdf) {
    first.push_back(2 * (pdf + 1));
    for (const float weight : {0.25F, 0.75F}) {
      for (int d = 0; d < kBaseDim; ++d) {
        const auto g = static_cast<int64_t>(weights.size());
        means(g, d) = static_cast<float>(pdf) - 3 * weight * static_cast<float>(d);
        variances(g, d) = 0.5F + weight + static_cast<float>(d);
      }
      weights.push_back(weight);
      frames.push_back(spoken[static_cast<size_t>(pdf)] ? weight / count : 0);
    }
  }
  FmllrEstimator expected(kBaseDim);
  expected.AccumulateGaussians(means, variances, frames);
  GmmModel model = small;
  model.gmm = GmmSet(first, weights, means, variances);
  const FmllrStatistics a = ExpectedSpeech(model).Statistics(), b = expected.Statistics();
  EXPECT_NEAR(a.posterior, 1, 1e-5);
  ASSERT_EQ(a.linear.size(), b.linear.size());
  for (size_t i = 0; i < a.linear.size(); ++i) EXPECT_NEAR(a.linear[i], b.linear[i], 1e-4) << i;
  for (size_t i = 0; i < a.quadratic.size(); ++i) EXPECT_NEAR(a.quadratic[i], b.quadratic[i], 1e-4) << i;
}

TEST(SpeakerTransform, IsDrawnToNoneByWhatTheGaussiansExpect) {
  const GmmModel model = testing::SmallAdaptiveModel(kBaseDim);
  const FmllrEstimator expected = ExpectedSpeech(model);
  EXPECT_NEAR(expected.posterior(), 1, 1e-5);
  const Matrix base = testing::RandomMatrix(200, kBaseDim, 7);
  const std::vector<int32_t> alignment = AnyAlignment(model.hmm, base.rows());
  const SpeakerUtterance utterance = testing::InParts(base, alignment);
  const auto far_from_none = [&](double weight) {
    const Matrix found =
        EstimateSpeakerTransform(model, {&utterance, 1}, 30, {.statistics = &expected, .weight = weight});
    double far = 0;
    for (int64_t i = 0; i < found.rows(); ++i) {
      for (int64_t j = 0; j < found.cols(); ++j) far = std::max(far, std::abs(found(i, j) - (i == j ? 1.0 : 0.0)));
    }
    return far;
  };
  EXPECT_GT(far_from_none(50), 1.1 * far_from_none(500));
  EXPECT_LT(far_from_none(1e6), 1e-2);
}

// Parts, and frames of speech in them, of as many sizes as there are parts: nothing may be kept for each.
TEST(SpeakerTransform, TakesNoMemoryForLongSpeech) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitizer has an allocator of its own";
  const GmmModel model = testing::SmallAdaptiveModel(13);
  constexpr int64_t kPart = 6000, kParts = 100;
  const Matrix part = testing::RandomMatrix(kPart, 13, 7);
  int64_t frames = 0;
  for (int64_t p = 0; p < kParts; ++p) frames += kPart - 11 * p;
  const std::vector<int32_t> alignment = AnyAlignment(model.hmm, frames);
  const auto read = [&](const UseBaseFeatures& use) {
    for (int64_t p = 0; p < kParts; ++p) use(part.view().Rows(0, kPart - 11 * p), p + 1 == kParts);
  };
  const SpeakerUtterance utterance{read, alignment};
  const double before = testing::PeakMegabytes();
  EstimateSpeakerTransform(model, {&utterance, 1});
  EXPECT_LT(testing::PeakMegabytes() - before, 24);
}

}  // namespace
}  // namespace antiphon::hmm
