// A feature transform of frames that come in pieces: the same frames as FeatureTransform::Apply of all of them.
//
// A frame is handed out once the frames of its right context are there, or the end is. Holds the context alone.
// Threads: one. Errors: as FeatureTransform::Apply.
#pragma once

#include <cstdint>
#include <vector>

#include "hmm/feature_transform.h"

namespace antiphon::hmm {

class FeatureTransformStream {
 public:
  explicit FeatureTransformStream(FeatureTransform transform) : transform_(std::move(transform)) {}

  /// More frames, and whether they are the last. Returns transformed ones that were not returned before.
  Matrix Accept(ConstMatrixView base, bool ended);

 private:
  FeatureTransform transform_;
  std::vector<float> base_;  // from first_ on
  int64_t first_ = 0;
  int64_t next_ = 0;  // to be handed out
};

}  // namespace antiphon::hmm
