#include "hmm/gmm_fmllr.h"

#include <algorithm>

#include "base/check.h"
#include "hmm/gmm_kernels.h"

namespace antiphon::hmm {
namespace {

// Of an utterance, almost three minutes. What is held of a longer one beside its base features does not grow with it.
constexpr int64_t kFramesAtOnce = 1024 * kFrameBlock;

// Frames first … last − 1 as the Gaussians see them.
Matrix TransformedRows(const FeatureTransform& transform, ConstMatrixView base, int64_t first, int64_t last) {
  const int64_t begin = std::max<int64_t>(0, first - transform.left());
  const int64_t end = std::min(base.rows(), last + transform.right());
  const Matrix with_context = transform.Apply(base.Rows(begin, end - begin));
  return Matrix(with_context.view().Rows(first - begin, last - first));
}

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

std::vector<int32_t> SpeechPdfs(const HmmModel& hmm, std::span<const int32_t> alignment) {
  std::vector<int32_t> pdfs = hmm.ToPdfs(alignment);
  for (size_t t = 0; t < pdfs.size(); ++t) {
    if (hmm.phones().IsSilence(hmm.transitions().Phone(alignment[t]))) pdfs[t] = -1;
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

Matrix EstimateSpeakerTransform(const GmmModel& model, std::span<const SpeakerUtterance> utterances,
                                double min_frames) {
  const GmmSet& first_pass = model.first_pass ? *model.first_pass : model.gmm;
  Matrix transform;
  for (int pass = 0; pass < 2; ++pass) {
    FmllrEstimator estimator(model.gmm.dim());
    for (const SpeakerUtterance& utterance : utterances) {
      const std::vector<int32_t> all_pdfs = SpeechPdfs(model.hmm, utterance.alignment);
      const int64_t rows = utterance.base_features.rows();
      CHECK_EQ(std::ssize(all_pdfs), rows);
      for (int64_t first = 0; first < rows; first += kFramesAtOnce) {
        const int64_t last = std::min(rows, first + kFramesAtOnce);
        const Matrix frames = TransformedRows(model.transform, utterance.base_features, first, last);
        const auto pdfs = std::span(all_pdfs).subspan(static_cast<size_t>(first), static_cast<size_t>(last - first));
        if (pass == 0) {
          AccumulateFmllr(first_pass, frames, frames, pdfs, estimator);
        } else {
          Matrix adapted(frames.rows(), frames.cols());
          ApplyAffine(transform, frames, adapted);
          AccumulateFmllr(model.gmm, adapted, frames, pdfs, estimator);
        }
      }
    }
    const FmllrEstimator::Result result = estimator.Estimate(min_frames);
    transform = result.transform;
    if (!result.estimated) break;
  }
  return transform;
}

}  // namespace antiphon::hmm
