// The transform (fMLLR) of a speaker who is still speaking: learnt from each utterance once it is recognised, for a
// model that is trained for such transforms.
//
//   SpeakerLearning learning(model, speaker);         // speaker: what earlier speech left, or nothing
//   if (learning.Learn(features, recognition)) …      // transform() changed: the utterance can be recognised anew
//   speaker = learning.learnt();
//
// An utterance's phones are aligned with it by the model's Gaussians, whatever states the network has; frames of words
// that are not sure do not count, and without confidences none does. A second of speech that needs no transform
// (kSpeakerPriorFrames) is counted in, so that a few words change little. The transform is estimated when speech has
// grown by a quarter since it was, so that its price stays small however long somebody speaks.
//
// Shapes: features as the front end gives them, normalised, [N, dim]. Units: frames of the features. Threads: one per
// object; the model must outlive it. Errors: ShapeError for features or a state of another dimension; InputError for
// speech that no transform can be computed from, of which nothing is learnt then.
// Source: M. Gales, 1998 (hmm/fmllr.h); as it is done while decoding, Kaldi's online2/online-gmm-decoding.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "decode/search/recognize.h"
#include "hmm/aligner.h"
#include "hmm/fmllr.h"
#include "math/matrix.h"
#include "pipeline/acoustic_model.h"

namespace antiphon::pipeline {

struct LearntTransform {
  hmm::FmllrStatistics heard;     // of all speech
  double estimated_from = 0;      // frames
  std::vector<double> transform;  // [dim, dim + 1] row by row; empty: not known yet

  bool operator==(const LearntTransform&) const = default;
};

class SpeakerLearning {
 public:
  /// Only if model.adaptive().
  explicit SpeakerLearning(const AcousticModel& model, const LearntTransform& speaker = {});

  /// More of the speaker, with what was recognised in it. Whether the transform changed.
  bool Learn(const Matrix& features, const decode::Recognition& recognition);
  /// [dim, dim + 1], behind the model's own; null: not known yet.
  const Matrix* transform() const { return transform_.empty() ? nullptr : &transform_; }
  LearntTransform learnt() const;

 private:
  // By frame of the features, −1 where nothing can be learnt; empty if the phones cannot be found.
  std::vector<int32_t> PdfsOf(const Matrix& features, const decode::Recognition& recognition) const;
  hmm::FmllrEstimator With(const Matrix& frames, std::span<const int32_t> pdfs, const Matrix& transform) const;

  const AcousticModel& model_;
  const hmm::GmmModel& gaussians_;
  const hmm::FmllrPrior prior_;
  hmm::FmllrEstimator heard_;
  double estimated_from_;
  Matrix transform_;
};

}  // namespace antiphon::pipeline
