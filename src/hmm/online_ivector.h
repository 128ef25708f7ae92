// i-vectors while speech is still coming: what is known of the speaker from the beginning up to now.
//
//   OnlineIvectors vectors(extractor, speaker);          // speaker: what earlier utterances left, or nothing
//   network.Accept(vectors.Accept(frames, /*ended=*/false));
//   speaker = vectors.state();                           // after the end
//
// Frames 10 b … 10 b + 9 (period 10) have the vector that the frames 0 … 10 b give, the earlier utterances of the
// speaker included. A frame is handed out as soon as its vector is known: the first of a period waits for the right
// context of the extractor's transform, the others do not wait. Each estimate is the exact solution of R equations in
// R unknowns, so that it depends on the sums alone and not on earlier estimates.
//
// Shapes: frames [N, feature_dim] → [N, feature_dim + R]; memory does not grow with the speech. Units: counts are sums
// of posteriors after posterior_scale. Threads: one per object; the extractor is shared. Bits do not depend on how the
// frames are cut into pieces. Errors: ShapeError for frames or a state of another dimension; InputError for frames that
// are not finite. Source: Kaldi's online2/online-ivector-feature.h.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "hmm/feature_transform_stream.h"
#include "hmm/ivector.h"

namespace antiphon::hmm {

/// What speech said of one speaker. Empty: nothing yet.
struct OnlineIvectorState {
  double count = 0;
  std::vector<double> linear;     // [R] Σ γ T_cᵀ Σ_c⁻¹ (x − base)
  std::vector<double> quadratic;  // [R·(R + 1)/2] Σ γ T_cᵀ Σ_c⁻¹ T_c, the lower triangle row by row

  bool operator==(const OnlineIvectorState&) const = default;
};

class OnlineIvectors {
 public:
  /// Of the speaker's earlier speech, memory_frames count at most.
  explicit OnlineIvectors(std::shared_ptr<const IvectorExtractor> extractor, OnlineIvectorState speaker = {});

  /// More frames, and whether they are the last of the utterance. Returns those that are ready, with vectors behind.
  Matrix Accept(ConstMatrixView frames, bool ended);
  /// Of all frames that the transform's context is there for; after the end, of all.
  const OnlineIvectorState& state() const { return state_; }
  /// The estimate from state().
  std::vector<float> Vector() const;

  const IvectorExtractor& extractor() const { return *extractor_; }

 private:
  void Add(ConstMatrixView transformed);

  std::shared_ptr<const IvectorExtractor> extractor_;
  FeatureTransformStream transform_;
  OnlineIvectorState state_;
  int64_t num_seen_ = 0;        // frames that state_ knows
  std::vector<float> waiting_;  // frames that were not handed out
  int64_t num_out_ = 0;         // frames that were
  std::vector<float> vectors_;  // of the periods from first_period_ on
  int64_t first_period_ = 0;
};

}  // namespace antiphon::hmm
