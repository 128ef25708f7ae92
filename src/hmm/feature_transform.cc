#include "hmm/feature_transform.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "hmm/fmllr.h"

namespace antiphon::hmm {
namespace {

void SpliceFrame(ConstMatrixView frames, int64_t t, int left, int right, float* to) {
  for (int64_t k = t - left; k <= t + right; ++k, to += frames.cols()) {
    const auto from = frames.Row(std::clamp<int64_t>(k, 0, frames.rows() - 1));
    std::copy(from.begin(), from.end(), to);
  }
}

}  // namespace

FeatureTransform::FeatureTransform(int left, int right, Matrix matrix)
    : left_(left), right_(right), matrix_(std::move(matrix)) {
  constexpr int kMaxContext = 1000;  // so that widths do not overflow
  if (left < 0 || right < 0 || left > kMaxContext || right > kMaxContext || matrix_.cols() < 2 ||
      (matrix_.cols() - 1) % (left + 1 + right) != 0)
    Throw<ShapeError>("feature transform of {} columns for a context of {} + 1 + {} frames", matrix_.cols(), left,
                      right);
}

FeatureTransform FeatureTransform::Identity(int dim) {
  Matrix matrix(dim, dim + 1);
  for (int d = 0; d < dim; ++d) matrix(d, d) = 1;
  return {0, 0, std::move(matrix)};
}

FeatureTransform FeatureTransform::Deltas(int dim, int order, int window) {
  const int reach = order * window;
  // Regression coefficients of each order over frames −reach … reach.
  std::vector<std::vector<double>> scales(1, std::vector<double>(static_cast<size_t>(2 * reach + 1), 0.0));
  scales[0][static_cast<size_t>(reach)] = 1;
  double norm = 0;
  for (int j = -window; j <= window; ++j) norm += j * j;
  for (int i = 1; i <= order; ++i) {
    std::vector<double> next(scales[0].size(), 0.0);
    for (int k = 0; k <= 2 * reach; ++k) {
      for (int j = -window; j <= window; ++j) {
        const int place = k + j;
        if (place < 0 || place > 2 * reach) continue;
        next[static_cast<size_t>(place)] += j * scales.back()[static_cast<size_t>(k)] / norm;
      }
    }
    scales.push_back(std::move(next));
  }
  Matrix matrix(static_cast<int64_t>(dim) * (order + 1), static_cast<int64_t>(dim) * (2 * reach + 1) + 1);
  for (int i = 0; i <= order; ++i) {
    for (int k = 0; k <= 2 * reach; ++k) {
      for (int d = 0; d < dim; ++d)
        matrix(i * dim + d, k * dim + d) = static_cast<float>(scales[static_cast<size_t>(i)][static_cast<size_t>(k)]);
    }
  }
  return {reach, reach, std::move(matrix)};
}

Matrix FeatureTransform::Apply(ConstMatrixView base) const {
  Matrix out(base.rows(), out_dim());
  if (base.rows() == 0) return out;
  if (base.cols() != in_dim())
    Throw<ShapeError>("features of {} dimensions where the model was trained on {}", base.cols(), in_dim());
  Matrix spliced(kAffineBlockFrames, matrix_.cols() - 1);
  Matrix block(kAffineBlockFrames, out_dim());
  for (int64_t first = 0; first < base.rows(); first += kAffineBlockFrames) {
    const int64_t count = std::min(kAffineBlockFrames, base.rows() - first);
    for (int64_t r = 0; r < count; ++r) SpliceFrame(base, first + r, left_, right_, spliced.Row(r).data());
    ApplyAffine(matrix_, spliced, block);
    for (int64_t r = 0; r < count; ++r) std::copy(block.Row(r).begin(), block.Row(r).end(), out.Row(first + r).begin());
  }
  return out;
}

FeatureTransform FeatureTransform::Then(ConstMatrixView affine) const {
  if (affine.cols() == out_dim() + 1) return {left_, right_, ComposeAffine(affine, matrix_)};
  CHECK_EQ(affine.cols(), out_dim());
  Matrix with_offset(affine.rows(), affine.cols() + 1);
  for (int64_t r = 0; r < affine.rows(); ++r)
    std::copy(affine.Row(r).begin(), affine.Row(r).end(), with_offset.Row(r).begin());
  return {left_, right_, ComposeAffine(with_offset, matrix_)};
}

Matrix SpliceFrames(ConstMatrixView frames, int left, int right) {
  Matrix out;
  out.Resize(frames.rows(), frames.cols() * (left + 1 + right));
  for (int64_t t = 0; t < frames.rows(); ++t) SpliceFrame(frames, t, left, right, out.Row(t).data());
  return out;
}

}  // namespace antiphon::hmm
