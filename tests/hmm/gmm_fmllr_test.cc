// Speakers' transforms from speech of any length.
#include "hmm/gmm_fmllr.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "random_matrix.h"
#include "small_gmm.h"

namespace antiphon::hmm {
namespace {

constexpr int kBaseDim = 4;

double PeakMegabytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// All states of A and B in turn, with silence in between.
std::vector<int32_t> AnyAlignment(const HmmModel& hmm, int64_t frames) {
  std::vector<int32_t> ids(static_cast<size_t>(frames));
  for (size_t t = 0; t < ids.size(); ++t)
    ids[t] = 1 + static_cast<int32_t>(t / 3) % hmm.transitions().num_transition_ids();
  return ids;
}

// The definition: both passes over the whole utterance at once.
Matrix TransformOfTheWhole(const GmmModel& model, const SpeakerUtterance& utterance) {
  const std::vector<int32_t> pdfs = SpeechPdfs(model.hmm, utterance.alignment);
  const Matrix frames = model.transform.Apply(utterance.base_features);
  FmllrEstimator first(model.gmm.dim());
  AccumulateFmllr(*model.first_pass, frames, frames, pdfs, first);
  Matrix adapted(frames.rows(), frames.cols());
  ApplyAffine(first.Estimate().transform, frames, adapted);
  FmllrEstimator second(model.gmm.dim());
  AccumulateFmllr(model.gmm, adapted, frames, pdfs, second);
  return second.Estimate().transform;
}

TEST(SpeakerTransform, OfLongSpeechIsThatOfTheWhole) {
  const GmmModel model = testing::SmallAdaptiveModel(kBaseDim);
  for (const int64_t frames : {1000, 40000}) {
    const Matrix base = testing::RandomMatrix(frames, kBaseDim, 7);
    const std::vector<int32_t> alignment = AnyAlignment(model.hmm, frames);
    const SpeakerUtterance utterance{base, alignment};
    const Matrix expected = TransformOfTheWhole(model, utterance);
    const Matrix found = EstimateSpeakerTransform(model, {&utterance, 1});
    ASSERT_EQ(found.cols(), expected.cols());
    for (int64_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found.data()[i], expected.data()[i], 1e-4) << frames;
  }
}

TEST(SpeakerTransform, TakesNoMemoryForLongSpeech) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer has an allocator of its own";
#endif
  const GmmModel model = testing::SmallAdaptiveModel(kBaseDim);
  constexpr int64_t kFrames = 1 << 20;
  const Matrix base = testing::RandomMatrix(kFrames, kBaseDim, 7);
  const std::vector<int32_t> alignment = AnyAlignment(model.hmm, kFrames);
  const SpeakerUtterance utterance{base, alignment};
  const double before = PeakMegabytes();
  EstimateSpeakerTransform(model, {&utterance, 1});
  const double frames_mb = 4e-6 * kFrames * model.gmm.dim();
  EXPECT_LT(PeakMegabytes() - before, frames_mb) << "what the Gaussians see would take " << frames_mb << " MB";
}

}  // namespace
}  // namespace antiphon::hmm
