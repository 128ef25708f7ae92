// A matrix whose rows are kept apart so that walking down a column does not fall into the same few lines of the cache.
//
// A product that reads its factor transposed (a layer's weight gradient: one column of 256 frames at a time) touches
// one line per row. If rows are a multiple of 4 KiB apart, as those of 2048 values are, all those lines compete for one
// set: measured with oneDNN, weight gradients take 4 to 12 % more of a training step. So rows of some length start an
// odd number of cache lines after each other; short ones lie close together. Factors that are read along their rows
// gain nothing, and oneDNN's fp32 products of a padded and an unpadded one are slow. Shapes, threads: as BasicMatrix.
// The gaps' contents are undefined and never read.
#pragma once

#include "math/matrix.h"

namespace antiphon {

/// Elements from one row to the next.
template <class T>
constexpr int64_t PaddedStride(int64_t cols) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  constexpr int64_t kShortLines = 4;
  const int64_t lines = (cols + kLine - 1) / kLine;
  return lines <= kShortLines ? cols : (lines | 1) * kLine;
}

template <class T>
class PaddedMatrix {
 public:
  /// Contents are undefined afterwards. Allocates only to grow.
  void Resize(int64_t rows, int64_t cols) {
    storage_.Resize(rows, PaddedStride<T>(cols));
    cols_ = cols;
  }
  int64_t rows() const { return storage_.rows(); }
  int64_t cols() const { return cols_; }
  bool empty() const { return rows() == 0 || cols_ == 0; }
  /// Bytes held, gaps included.
  size_t bytes() const { return static_cast<size_t>(storage_.size()) * sizeof(T); }

  BasicMatrixView<T> view() { return storage_.view().Cols(0, cols_); }
  BasicMatrixView<const T> view() const { return storage_.view().Cols(0, cols_); }
  operator BasicMatrixView<T>() { return view(); }              // NOLINT(google-explicit-constructor)
  operator BasicMatrixView<const T>() const { return view(); }  // NOLINT(google-explicit-constructor)

 private:
  BasicMatrix<T> storage_;
  int64_t cols_ = 0;
};

}  // namespace antiphon
