// The frames of an utterance that scoring still needs, while more of them may come.
//
// Threads: one per window. Errors: ShapeError naming both dimensions.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "math/matrix.h"

namespace antiphon::infer {

class FrameWindow {
 public:
  FrameWindow(int feature_dim, int left_context, int right_context)
      : dim_(feature_dim), left_(left_context), right_(right_context) {}

  /// More frames, one per row; not after Finish.
  void Accept(ConstMatrixView frames);
  void Finish() { finished_ = true; }
  bool finished() const { return finished_; }

  int num_frames() const { return num_frames_; }
  /// Frames 0 … n − 1 have their context, or will get no more of it.
  int num_centres() const { return finished_ ? num_frames_ : std::max(0, num_frames_ - right_); }
  /// Writes the frames around `centre`, one after another; the outermost stand for those beyond.
  void Splice(int centre, std::span<float> out) const;
  /// Centres below `centre` will not be asked for any more.
  void ForgetBelow(int centre);
  size_t bytes() const { return frames_.capacity() * sizeof(float); }

 private:
  int dim_, left_, right_;
  std::vector<float> frames_;  // from first_ on
  int first_ = 0;
  int num_frames_ = 0;
  bool finished_ = false;
};

}  // namespace antiphon::infer
