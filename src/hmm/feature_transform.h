// From base features to what the Gaussians see: context around each frame, then one affine map.
//
// Deltas, LDA and MLLT are all of this form, so that a model stores one matrix. Frames before the first and after the
// last repeat these. Shapes: base features [N, in]; matrix [out, in · (left + 1 + right) + 1], its last column an
// offset; output [N, out]. Threads: const methods may run together. Errors: ShapeError naming both dimensions.
#pragma once

#include "math/matrix.h"

namespace antiphon::hmm {

class FeatureTransform {
 public:
  FeatureTransform() = default;
  FeatureTransform(int left, int right, Matrix matrix);
  /// Output = input.
  static FeatureTransform Identity(int dim);
  /// Features with their first `order` time derivatives, each a regression over `window` frames to either side (Kaldi's
  /// deltas).
  static FeatureTransform Deltas(int dim, int order = 2, int window = 2);

  int left() const { return left_; }
  int right() const { return right_; }
  int in_dim() const { return static_cast<int>((matrix_.cols() - 1) / (left_ + 1 + right_)); }
  int out_dim() const { return static_cast<int>(matrix_.rows()); }
  const Matrix& matrix() const { return matrix_; }

  Matrix Apply(ConstMatrixView base) const;
  /// This, followed by x' = M x + b; `affine` is [new_out, out] or, with b, [new_out, out + 1].
  FeatureTransform Then(ConstMatrixView affine) const;

 private:
  int left_ = 0;
  int right_ = 0;
  Matrix matrix_;
};

/// [N, in · (left + 1 + right)]: the frames around each frame, edge frames repeated.
Matrix SpliceFrames(ConstMatrixView frames, int left, int right);

}  // namespace antiphon::hmm
