// Memory that is read next, brought into the second cache while the caller multiplies, evenly over its steps.
//
// Weights that have to come from memory otherwise hold up the first rows of every panel, while memory rests during the
// others. Threads: one per object.
#pragma once

#include <algorithm>
#include <cstdint>

namespace antiphon {

class FetchAhead {
 public:
  FetchAhead() = default;
  /// `bytes` from `from` on, over `steps` calls of Step. Null: nothing.
  FetchAhead(const char* from, int64_t bytes, int64_t steps) : at_(from) {
    if (from == nullptr || bytes <= 0 || steps <= 0) return;
    end_ = from + bytes;
    lines_per_step_ = static_cast<int>(((bytes + kLine - 1) / kLine + steps - 1) / steps);
  }
  /// The share of one of as many equal users, the one with this index.
  static FetchAhead Share(const char* from, int64_t bytes, int64_t index, int64_t users, int64_t steps) {
    const int64_t begin = bytes * index / users / kLine * kLine, end = bytes * (index + 1) / users / kLine * kLine;
    return from == nullptr ? FetchAhead() : FetchAhead(from + begin, end - begin, steps);
  }

  /// Where the next step goes on.
  const char* at() const { return at_; }

  void Step() {
    if (at_ >= end_) return;
    for (int i = 0; i < lines_per_step_; ++i, at_ += kLine) __builtin_prefetch(at_, 0, 2);
  }

 private:
  static constexpr int64_t kLine = 64;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  int lines_per_step_ = 0;
};

}  // namespace antiphon
