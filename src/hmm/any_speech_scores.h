// Scores of a further class, "any speech", beside those of a model: what fits it says nothing of the words of a text.
//
// Its score in a frame is the mean of the frame's best classes. Speech that is really one of the model's sounds scores
// better as that sound, speech that the text does not foresee scores better as any speech. No model of it needs to be
// trained, and it serves Gaussians and networks alike.
//
// Shapes: pdf_id num_pdfs() − 1 is the further class. Threads: one thread per source.
// Source: Boite, Bourlard, d'Hoore, Haesen, A new approach towards keyword spotting, Eurospeech 1993 (on-line garbage).
#pragma once

#include <cstdint>
#include <vector>

#include "base/score_source.h"

namespace antiphon::hmm {

class AnySpeechScores : public ScoreSource {
 public:
  /// `scores` must outlive this. `share`: of the classes that count as the frame's best, at least one.
  AnySpeechScores(ScoreSource& scores, double share);

  int num_pdfs() const override { return scores_.num_pdfs() + 1; }
  int num_frames_ready() const override { return scores_.num_frames_ready(); }
  bool IsLastFrame(int frame) const override { return scores_.IsLastFrame(frame); }
  float LogLikelihood(int frame, int32_t pdf_id) override;
  std::span<const float> DenseFrame(int) override { return {}; }
  void Request(int frame, std::span<const int32_t> pdf_ids) override;

 private:
  float AnySpeech(int frame);

  ScoreSource& scores_;
  size_t num_best_;
  std::vector<int32_t> all_;
  std::vector<int32_t> asked_;
  std::vector<float> values_;
  int frame_ = -1;  // of any_speech_
  float any_speech_ = 0.0F;
};

}  // namespace antiphon::hmm
