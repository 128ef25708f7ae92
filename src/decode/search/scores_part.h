// A source of scores that begins and ends within another: what is searched or aligned of a recording for itself.
#pragma once

#include "decode/search/scores_from.h"

namespace antiphon::decode {

class ScoresPart : public ScoresFrom {
 public:
  /// `source`, which must outlive this, has all of these frames.
  ScoresPart(ScoreSource& source, int first_frame, int num_frames)
      : ScoresFrom(source, first_frame), num_frames_(num_frames) {}

  int num_frames_ready() const override { return num_frames_; }
  bool IsLastFrame(int frame) const override { return frame == num_frames_ - 1; }

 private:
  int num_frames_;
};

}  // namespace antiphon::decode
