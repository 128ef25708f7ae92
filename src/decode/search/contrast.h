// How much the scores of a network's states rise and fall within an utterance: tells speech from other sound once it
// was searched.
//
// Speech is one sound after the other, each with a state that stands out for a moment. Music and noise that were taken
// for speech change little of what the network says, whatever words a search makes of them. With v the variance of each
// state's log-likelihood over the frames, the mean over states taken out of each frame first, contrast is
// √(Σ v² / Σ v): states that vary much count more, those that hardly vary do not matter. A constant per frame changes
// nothing, nor do words or language model. Its size is the network's own: compare it with that of known speech.
//
// Units: nats. Threads: as sources of scores.
// Source: after the dynamism of Ajmera, McCowan, Bourlard, Speech/music segmentation using entropy and dynamism
// features in a HMM classification framework, Speech Communication 40, 2003, which is about differences from frame to
// frame.
#pragma once

#include <span>
#include <vector>

#include "decode/search/scores_from.h"

namespace antiphon::decode {

/// Takes the frames of an utterance in their order.
class Contrast {
 public:
  /// Another utterance begins, with frame 0.
  void Clear();
  /// Ignored: a frame that was measured before; an empty span (lazy outputs, Gaussians); scores that are not finite.
  void Measure(int frame, std::span<const float> scores);
  /// The search is cut: what was frame `frame` is called 0 from now on. What was measured counts on.
  void CutBefore(int frame) { next_ -= frame; }
  /// Of all frames since Clear; NaN if fewer than two were measured.
  double Value() const;

 private:
  int next_ = 0;                        // frame to be measured
  int count_ = 0;                       // of frames that were measured
  std::vector<double> sums_, squares_;  // by pdf-id
};

/// A source of scores that is measured on its way to a search.
class MeasuredScores : public ScoresFrom {
 public:
  /// Both must outlive this.
  MeasuredScores(ScoreSource& source, Contrast& contrast) : ScoresFrom(source, 0), contrast_(contrast) {}

  std::span<const float> DenseFrame(int frame) override {
    const std::span<const float> scores = ScoresFrom::DenseFrame(frame);
    contrast_.Measure(frame, scores);
    return scores;
  }

 private:
  Contrast& contrast_;
};

}  // namespace antiphon::decode
