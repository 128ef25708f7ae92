// Scores that lie in a matrix: a network's output that was kept, or a test's table.
#pragma once

#include <utility>

#include "base/score_source.h"
#include "math/matrix.h"

namespace antiphon::decode {

class MatrixScores : public ScoreSource {
 public:
  /// log_likelihoods[frame, pdf-id].
  explicit MatrixScores(Matrix log_likelihoods) : scores_(std::move(log_likelihoods)) {}

  int num_pdfs() const override { return static_cast<int>(scores_.cols()); }
  int num_frames_ready() const override { return static_cast<int>(scores_.rows()); }
  bool IsLastFrame(int frame) const override { return frame == num_frames_ready() - 1; }
  float LogLikelihood(int frame, int32_t pdf_id) override { return scores_(frame, pdf_id); }
  std::span<const float> DenseFrame(int frame) override { return std::as_const(scores_).Row(frame); }

 private:
  Matrix scores_;
};

}  // namespace antiphon::decode
