// Row-major matrices: owning Matrix, non-owning views.
//
// Shapes: rows × cols, one frame per row; `stride` elements from one row to the next (≥ cols). Rows and columns from 0;
// either may be 0. Owned memory is aligned to 64 bytes and its stride equals cols. Views do not own and do not check
// lifetimes. Threads: as plain memory.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "base/check.h"

namespace antiphon {

/// A view of rows × cols elements of T (const T for read-only).
template <class T>
class BasicMatrixView {
 public:
  BasicMatrixView() = default;
  BasicMatrixView(T* data, int64_t rows, int64_t cols, int64_t stride)
      : data_(data), rows_(rows), cols_(cols), stride_(stride) {}
  BasicMatrixView(T* data, int64_t rows, int64_t cols) : BasicMatrixView(data, rows, cols, cols) {}
  /// A view of a mutable matrix serves as a read-only one.
  template <class U>
  requires(std::is_same_v<const U, T> && !std::is_same_v<U, T>)
      BasicMatrixView(const BasicMatrixView<U>& other)  // NOLINT(google-explicit-constructor)
      : BasicMatrixView(other.data(), other.rows(), other.cols(), other.stride()) {}

  T* data() const { return data_; }
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  int64_t stride() const { return stride_; }
  int64_t size() const { return rows_ * cols_; }
  bool empty() const { return rows_ == 0 || cols_ == 0; }
  bool contiguous() const { return stride_ == cols_ || rows_ <= 1; }

  T& operator()(int64_t row, int64_t col) const {
    DCHECK(row >= 0 && row < rows_ && col >= 0 && col < cols_);
    return data_[row * stride_ + col];
  }
  std::span<T> Row(int64_t row) const {
    DCHECK(row >= 0 && row < rows_);
    return {data_ + row * stride_, static_cast<size_t>(cols_)};
  }
  BasicMatrixView Rows(int64_t first, int64_t count) const {
    DCHECK(first >= 0 && count >= 0 && first + count <= rows_);
    return {data_ + first * stride_, count, cols_, stride_};
  }
  BasicMatrixView Cols(int64_t first, int64_t count) const {
    DCHECK(first >= 0 && count >= 0 && first + count <= cols_);
    return {data_ + first, rows_, count, stride_};
  }

 private:
  T* data_ = nullptr;
  int64_t rows_ = 0;
  int64_t cols_ = 0;
  int64_t stride_ = 0;
};

using MatrixView = BasicMatrixView<float>;
using ConstMatrixView = BasicMatrixView<const float>;

/// An owning matrix. Resize keeps nothing and sets nothing unless asked; shrinking keeps the memory.
template <class T>
class BasicMatrix {
 public:
  BasicMatrix() = default;
  /// Zeros.
  BasicMatrix(int64_t rows, int64_t cols) {
    Resize(rows, cols);
    SetZero();
  }
  BasicMatrix(const BasicMatrix& other) { *this = other; }
  BasicMatrix(BasicMatrix&& other) noexcept { *this = std::move(other); }
  BasicMatrix& operator=(const BasicMatrix& other) {
    if (this != &other) {
      Resize(other.rows_, other.cols_);
      if (size() > 0) std::memcpy(data_.get(), other.data_.get(), static_cast<size_t>(size()) * sizeof(T));
    }
    return *this;
  }
  BasicMatrix& operator=(BasicMatrix&& other) noexcept {
    data_ = std::move(other.data_);
    rows_ = std::exchange(other.rows_, 0);
    cols_ = std::exchange(other.cols_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }
  explicit BasicMatrix(BasicMatrixView<const T> view) {
    Resize(view.rows(), view.cols());
    for (int64_t r = 0; r < rows_; ++r) {
      if (cols_ > 0) std::memcpy(data_.get() + r * cols_, view.Row(r).data(), static_cast<size_t>(cols_) * sizeof(T));
    }
  }

  /// Contents are undefined afterwards. Allocates only to grow. std::bad_alloc leaves an empty matrix.
  void Resize(int64_t rows, int64_t cols) {
    CHECK(rows >= 0 && cols >= 0) << rows << " x " << cols;
    if (rows * cols > capacity_) {
      rows_ = cols_ = capacity_ = 0;
      data_.reset();
      const size_t bytes = (static_cast<size_t>(rows * cols) * sizeof(T) + 63) / 64 * 64;
      data_.reset(static_cast<T*>(std::aligned_alloc(64, bytes)));
      if (!data_) throw std::bad_alloc();
      capacity_ = rows * cols;
    }
    rows_ = rows;
    cols_ = cols;
  }
  void SetZero() {
    if (size() > 0) std::memset(data_.get(), 0, static_cast<size_t>(size()) * sizeof(T));
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  int64_t size() const { return rows_ * cols_; }
  bool empty() const { return size() == 0; }
  T& operator()(int64_t row, int64_t col) { return view()(row, col); }
  const T& operator()(int64_t row, int64_t col) const { return view()(row, col); }
  std::span<T> Row(int64_t row) { return view().Row(row); }
  std::span<const T> Row(int64_t row) const { return view().Row(row); }

  BasicMatrixView<T> view() { return {data_.get(), rows_, cols_}; }
  BasicMatrixView<const T> view() const { return {data_.get(), rows_, cols_}; }
  operator BasicMatrixView<T>() { return view(); }              // NOLINT(google-explicit-constructor)
  operator BasicMatrixView<const T>() const { return view(); }  // NOLINT(google-explicit-constructor)

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  static_assert(std::is_trivially_copyable_v<T>);
  std::unique_ptr<T, Free> data_;
  int64_t rows_ = 0;
  int64_t cols_ = 0;
  int64_t capacity_ = 0;
};

using Matrix = BasicMatrix<float>;
using DoubleMatrix = BasicMatrix<double>;

}  // namespace antiphon
