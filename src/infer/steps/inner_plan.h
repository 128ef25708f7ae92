// What steps share that run a plan of their own inside (residual, bidirectional).
#pragma once

#include <memory>

#include "infer/plan.h"
#include "infer/steps/kept_frames.h"

namespace antiphon::infer {

/// A stream's state for a step that keeps frames and runs `plan` over them.
inline void BeginInner(const TimeContext& context, int64_t in_dim, const Plan& plan, StepState& state) {
  KeptFrames::Begin(context, in_dim, state);
  if (state.inner) return state.inner->Reset();
  state.inner = std::make_shared<PlanState>(plan);
}

/// Adds what the steps of `plan` weigh and do, run so many times per output; those below a stride more often.
inline void AddInner(const Plan& plan, int times, StepInfo& info) {
  for (size_t i = plan.num_steps(); i-- > 0;) {
    const StepInfo inner = plan.step(i).Info();
    info.isa = inner.isa.empty() ? info.isa : inner.isa;
    info.weight_bytes += inner.weight_bytes;
    info.operations += times * inner.operations;
    info.done_operations += times * inner.done_operations;
    times *= plan.step(i).stride();
  }
}

}  // namespace antiphon::infer
