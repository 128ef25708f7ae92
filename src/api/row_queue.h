// Rows of features that wait: more come in behind, the first are looked at or taken. Threads: one. Errors: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "math/matrix.h"

namespace antiphon {

class RowQueue {
 public:
  void Accept(ConstMatrixView rows) {
    cols_ = rows.cols();
    for (int64_t r = 0; r < rows.rows(); ++r) values_.insert(values_.end(), rows.Row(r).begin(), rows.Row(r).end());
  }
  int64_t size() const { return cols_ == 0 ? 0 : static_cast<int64_t>(values_.size() - dropped_) / cols_; }
  /// A copy; `count`: size() at most.
  Matrix First(int64_t count) const {
    if (count <= 0) return {};
    Matrix rows(count, cols_);
    std::copy_n(values_.begin() + static_cast<std::ptrdiff_t>(dropped_), rows.size(), rows.data());
    return rows;
  }
  /// The first of them; `count`: size() at most.
  void Drop(int64_t count) {
    dropped_ += static_cast<size_t>(count * cols_);
    if (2 * dropped_ <= values_.size()) return;
    values_.erase(values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(dropped_));
    dropped_ = 0;
  }
  void Clear() { Drop(size()); }

 private:
  std::vector<float> values_;
  size_t dropped_ = 0;  // of them
  int64_t cols_ = 0;
};

}  // namespace antiphon
