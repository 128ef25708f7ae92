// fMLLR transforms from alignments and Gaussian mixtures: one per speaker, in training and before a second decoding
// pass.
//
// Shapes: frames [N, dim] after the model's feature transform; pdfs has one pdf-id per frame, −1 for frames that do not
// count (silence). Transforms are [dim, dim + 1] (hmm/fmllr.h).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/options.h"
#include "hmm/fmllr.h"
#include "hmm/gmm.h"
#include "hmm/gmm_model.h"

namespace antiphon::hmm {

/// Adds the posteriors of `gmm` on `posterior_frames`, with which `frames` are to be moved. Both are often the same.
void AccumulateFmllr(const GmmSet& gmm, ConstMatrixView posterior_frames, ConstMatrixView frames,
                     std::span<const int32_t> pdfs, FmllrEstimator& estimator);

/// The same by the Gaussians that a speaker with this transform (empty: not known) is scored by, of frames before it.
void AccumulateFmllr(const GmmModel& model, const Matrix& frames, std::span<const int32_t> pdfs,
                     const Matrix& transform, FmllrEstimator& estimator);

/// A frame of a speaker who needs no transform, as the Gaussians expect it: spread evenly over the pdf-ids that are
/// spoken. For FmllrPrior.
FmllrEstimator ExpectedSpeech(const GmmModel& model);

/// pdf-id per frame, −1 where the phone is silence and where the alignment has no transition-id (0).
std::vector<int32_t> SpeechPdfs(const HmmModel& hmm, std::span<const int32_t> alignment);

/// By pdf-id: whether a phone that is not silence has it.
std::vector<bool> SpokenPdfs(const HmmModel& hmm);

/// Takes some of an utterance's base features, and whether they are its last.
using UseBaseFeatures = std::function<void(ConstMatrixView part, bool last)>;

/// One utterance of a speaker: its base features, which are read part by part once in each pass, and the transition-ids
/// of a first pass, 0 for frames that it has no path for.
struct SpeakerUtterance {
  std::function<void(const UseBaseFeatures& use)> base_features;
  std::span<const int32_t> alignment;
};

/// A speaker's transform for a speaker-adaptive model, from a first pass's best paths: first with the first pass's
/// Gaussians, then once more with the adapted ones. The identity if there is less speech than min_frames, which the
/// prior's do not count among. Memory: does not grow with speech but for an utterance's pdf-ids.
Matrix EstimateSpeakerTransform(const GmmModel& model, std::span<const SpeakerUtterance> utterances,
                                double min_frames = 500, const FmllrPrior& prior = {});

}  // namespace antiphon::hmm
