#include "infer/frame_window.h"

#include "base/check.h"
#include "base/error.h"

namespace antiphon::infer {

void FrameWindow::Accept(ConstMatrixView frames) {
  CHECK(!finished_) << "frames after the end";
  if (frames.rows() > 0 && frames.cols() != dim_) {
    Throw<ShapeError>(
        "the model takes {} values per frame, the features have {}; compute them with the model's settings", dim_,
        frames.cols());
  }
  for (int64_t r = 0; r < frames.rows(); ++r) frames_.insert(frames_.end(), frames.Row(r).begin(), frames.Row(r).end());
  num_frames_ += static_cast<int>(frames.rows());
}

void FrameWindow::Splice(int centre, std::span<float> out) const {
  float* to = out.data();
  for (int t = centre - left_; t <= centre + right_; ++t) {
    const float* from = frames_.data() + int64_t{std::clamp(t, first_, num_frames_ - 1) - first_} * dim_;
    to = std::copy_n(from, dim_, to);
  }
}

void FrameWindow::ForgetBelow(int centre) {
  // The last frame stands for those beyond the end.
  const int count = std::min(centre - left_, num_frames_ - 1) - first_;
  if (count <= 0) return;
  frames_.erase(frames_.begin(), frames_.begin() + int64_t{count} * dim_);
  first_ += count;
}

}  // namespace antiphon::infer
