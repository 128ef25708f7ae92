#include "hmm/feature_transform_stream.h"

#include <algorithm>

#include "base/error.h"

namespace antiphon::hmm {

Matrix FeatureTransformStream::Accept(ConstMatrixView base, bool ended) {
  const int64_t dim = transform_.in_dim();
  if (base.rows() > 0 && base.cols() != dim)
    Throw<ShapeError>("features of {} dimensions where the model was trained on {}", base.cols(), dim);
  for (int64_t r = 0; r < base.rows(); ++r) base_.insert(base_.end(), base.Row(r).begin(), base.Row(r).end());
  const int64_t known = first_ + std::ssize(base_) / dim;
  const int64_t ready = ended ? known : std::max<int64_t>(known - transform_.right(), next_);
  if (ready == next_) return {};
  // With their context to both sides; what the first and last frame lack, Apply repeats.
  const Matrix all = transform_.Apply(ConstMatrixView(base_.data(), known - first_, dim));
  Matrix out(all.view().Rows(next_ - first_, ready - next_));
  next_ = ready;
  const int64_t forgotten = std::max<int64_t>(ready - transform_.left() - first_, 0);
  base_.erase(base_.begin(), base_.begin() + forgotten * dim);
  first_ += forgotten;
  return out;
}

}  // namespace antiphon::hmm
