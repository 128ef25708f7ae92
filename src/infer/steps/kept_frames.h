// The frames of one stream in a run, those that a step kept from the last run before the new ones.
#pragma once

#include <algorithm>

#include "base/time_context.h"
#include "infer/plan_step.h"

namespace antiphon::infer {

class KeptFrames {
 public:
  /// `count` rows of `in` from `first` on are new.
  KeptFrames(const TimeContext& context, const Rows& in, int first, int count, StepState& state)
      : context_(context), in_(in), first_(first), count_(count), state_(state) {}

  /// Memory for what a stream keeps.
  static void Begin(const TimeContext& context, int64_t dim, StepState& state) {
    state.values.assign(static_cast<size_t>((context.span() + context.stride - 1) * dim), 0.0F);
    state.rows = 0;
  }

  int outputs() const { return static_cast<int>(context_.Outputs(state_.rows + count_)); }
  /// The frame at an offset from that of output j.
  const float* Of(int j, int offset) const { return Frame(j * context_.stride + context_.left + offset); }
  /// Keeps what later outputs need; last.
  void Keep() {
    const int used = outputs() * context_.stride;
    const int rows = state_.rows + count_ - used;
    // From the front, as what is copied may lie further behind in the same memory.
    for (int t = 0; t < rows; ++t) std::copy_n(Frame(used + t), in_.dim, state_.values.data() + t * in_.dim);
    state_.rows = rows;
  }

 private:
  const float* Frame(int t) const {
    return t < state_.rows ? state_.values.data() + t * in_.dim : in_.Row<float>(first_ + t - state_.rows);
  }

  const TimeContext& context_;
  const Rows& in_;
  int first_;
  int count_;
  StepState& state_;
};

}  // namespace antiphon::infer
