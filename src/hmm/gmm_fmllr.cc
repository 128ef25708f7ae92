#include "hmm/gmm_fmllr.h"

#include <algorithm>

#include "base/check.h"
#include "hmm/feature_transform_stream.h"
#include "hmm/gmm_kernels.h"

namespace antiphon::hmm {
namespace {

// Almost three minutes.
constexpr int64_t kFramesAtOnce = 1024 * kFrameBlock;

}  // namespace

void AccumulateFmllr(const GmmSet& gmm, ConstMatrixView posterior_frames, ConstMatrixView frames,
                     std::span<const int32_t> pdfs, FmllrEstimator& estimator) {
  CHECK_EQ(posterior_frames.rows(), frames.rows());
  CHECK_EQ(static_cast<int64_t>(pdfs.size()), frames.rows());
  const auto dim = static_cast<int64_t>(gmm.dim());
  const FrameBlocks blocks(posterior_frames);
  Matrix used(frames.rows(), dim);
  Matrix precision(frames.rows(), dim);
  Matrix weighted_mean(frames.rows(), dim);
  std::vector<float> posteriors(static_cast<size_t>(gmm.MaxGaussiansPerPdf()) * kFrameBlock);
  int64_t count = 0;
  int64_t computed_block = -1;
  int32_t computed_pdf = -1;
  for (int64_t t = 0; t < frames.rows(); ++t) {
    const int32_t pdf = pdfs[static_cast<size_t>(t)];
    if (pdf < 0) continue;
    if (t / kFrameBlock != computed_block || pdf != computed_pdf) {
      computed_block = t / kFrameBlock;
      computed_pdf = pdf;
      float log_sums[kFrameBlock];
      gmm.GaussianLogLikelihoods(pdf, blocks.Block(static_cast<int>(computed_block)), posteriors.data());
      PosteriorBlock(posteriors.data(), gmm.NumGaussians(pdf), log_sums);
    }
    float* p = precision.Row(count).data();
    float* m = weighted_mean.Row(count).data();
    for (int g = 0; g < gmm.NumGaussians(pdf); ++g) {
      const float posterior = posteriors[static_cast<size_t>(g * kFrameBlock + t % kFrameBlock)];
      if (posterior < 1e-4F) continue;
      const float* inverse = gmm.inverse_variances().Row(gmm.FirstGaussian(pdf) + g).data();
      const float* mean = gmm.means().Row(gmm.FirstGaussian(pdf) + g).data();
      for (int64_t d = 0; d < dim; ++d) {
        const float weight = posterior * inverse[d];
        p[d] += weight;
        m[d] += weight * mean[d];
      }
    }
    std::copy(frames.Row(t).begin(), frames.Row(t).end(), used.Row(count).begin());
    ++count;
  }
  estimator.Accumulate(used.view().Rows(0, count), precision.view().Rows(0, count), weighted_mean.view().Rows(0, count),
                       static_cast<double>(count));
}

void AccumulateFmllr(const GmmModel& model, const Matrix& frames, std::span<const int32_t> pdfs,
                     const Matrix& transform, FmllrEstimator& estimator) {
  if (transform.empty()) {
    return AccumulateFmllr(model.first_pass ? *model.first_pass : model.gmm, frames, frames, pdfs, estimator);
  }
  Matrix adapted(frames.rows(), frames.cols());
  ApplyAffine(transform, frames, adapted);
  AccumulateFmllr(model.gmm, adapted, frames, pdfs, estimator);
}

FmllrEstimator ExpectedSpeech(const GmmModel& model) {
  FmllrEstimator expected(model.gmm.dim());
  const std::vector<bool> spoken = SpokenPdfs(model.hmm);
  const auto count = std::ranges::count(spoken, true);
  if (count == 0) return expected;
  const float share = 1.0F / static_cast<float>(count);
  std::vector<float> frames(model.gmm.weights().begin(), model.gmm.weights().end());
  for (int32_t pdf = 0; pdf < model.gmm.num_pdfs(); ++pdf) {
    const auto first = static_cast<size_t>(model.gmm.FirstGaussian(pdf));
    const auto gaussians = std::span(frames).subspan(first, static_cast<size_t>(model.gmm.NumGaussians(pdf)));
    for (float& of_gaussian : gaussians) of_gaussian *= spoken[static_cast<size_t>(pdf)] ? share : 0.0F;
  }
  expected.AccumulateGaussians(model.gmm.means(), model.gmm.variances(), frames);
  return expected;
}

std::vector<int32_t> SpeechPdfs(const HmmModel& hmm, std::span<const int32_t> alignment) {
  std::vector<int32_t> ids(alignment.begin(), alignment.end());
  std::ranges::replace(ids, 0, 1);  // any that there is
  std::vector<int32_t> pdfs = hmm.ToPdfs(ids);
  for (size_t t = 0; t < pdfs.size(); ++t) {
    if (alignment[t] == 0 || hmm.phones().IsSilence(hmm.transitions().Phone(alignment[t]))) pdfs[t] = -1;
  }
  return pdfs;
}

std::vector<bool> SpokenPdfs(const HmmModel& hmm) {
  std::vector<bool> spoken(static_cast<size_t>(hmm.num_pdfs()), false);
  const TransitionModel& transitions = hmm.transitions();
  for (int32_t id = 1; id <= transitions.num_transition_ids(); ++id) {
    if (!hmm.phones().IsSilence(transitions.Phone(id))) spoken[static_cast<size_t>(transitions.Pdf(id))] = true;
  }
  return spoken;
}

namespace {

// `transform`: of the pass before; empty in the first one, which the first pass's Gaussians see.
void AccumulateUtterance(const GmmModel& model, const SpeakerUtterance& utterance, const Matrix& transform,
                         FmllrEstimator& estimator) {
  const std::vector<int32_t> all_pdfs = SpeechPdfs(model.hmm, utterance.alignment);
  FeatureTransformStream as_gaussians_see(model.transform);
  size_t done = 0;
  const auto accumulate = [&](const Matrix& frames) {
    const auto count = static_cast<size_t>(frames.rows());
    CHECK_LE(done + count, all_pdfs.size());
    AccumulateFmllr(model, frames, std::span(all_pdfs).subspan(done, count), transform, estimator);
    done += count;
  };
  utterance.base_features([&](ConstMatrixView part, bool last) {
    for (int64_t begin = 0; begin < part.rows(); begin += kFramesAtOnce) {
      const int64_t count = std::min(kFramesAtOnce, part.rows() - begin);
      accumulate(as_gaussians_see.Accept(part.Rows(begin, count), last && begin + count == part.rows()));
    }
  });
  CHECK_EQ(done, all_pdfs.size());
}

}  // namespace

Matrix EstimateSpeakerTransform(const GmmModel& model, std::span<const SpeakerUtterance> utterances, double min_frames,
                                const FmllrPrior& prior) {
  Matrix transform;
  for (int pass = 0; pass < 2; ++pass) {
    FmllrEstimator estimator(model.gmm.dim());
    for (const SpeakerUtterance& utterance : utterances) AccumulateUtterance(model, utterance, transform, estimator);
    const FmllrEstimator::Result result = estimator.Estimate(min_frames, prior);
    transform = result.transform;
    if (!result.estimated) break;
  }
  return transform;
}

}  // namespace antiphon::hmm
