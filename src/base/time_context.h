// Which frames an output needs.
//
// Output j of a piece of frames is made from its frames j·stride … j·stride + left + right (and none of the further
// ones up to the next output's), and stands for frame j·stride + left. n outputs take n·stride + left + right frames:
// pieces of a sequence that overlap by left + right frames give the outputs of the whole.
#pragma once

#include <algorithm>
#include <cstdint>

namespace antiphon {

struct TimeContext {
  int left = 0;
  int right = 0;
  int stride = 1;

  int span() const { return left + right; }
  int64_t InputFrames(int64_t outputs) const { return outputs * stride + span(); }
  int64_t Outputs(int64_t frames) const { return std::max<int64_t>(0, (frames - span()) / stride); }
  bool one_to_one() const { return left == 0 && right == 0 && stride == 1; }

  friend bool operator==(const TimeContext&, const TimeContext&) = default;
};

/// The context of `above` applied to what `below` gives.
inline TimeContext Compose(const TimeContext& below, const TimeContext& above) {
  return {below.left + above.left * below.stride, below.right + above.right * below.stride,
          below.stride * above.stride};
}

}  // namespace antiphon
