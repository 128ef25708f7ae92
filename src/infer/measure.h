// How fast a plan runs on this machine, step by step, and how near that is to what the machine can do.
//
// The roofline: a step takes at least its weights' bytes over the memory's rate, and its operations over the rate of
// the same kernel on data in the nearest cache; its share is the larger of the two over the time that it took.
// Threads: uses the the caller's compute threads. Times are wall-clock medians.
#pragma once

#include <string>
#include <vector>

#include "infer/plan.h"

namespace antiphon::infer {

struct StepSpeed {
  StepInfo info;
  double seconds = 0;  // per batch
  double roofline_share = 0;
};

struct PlanSpeed {
  double frames_per_second = 0;
  int64_t weight_bytes = 0;
  int64_t workspace_bytes = 0;  // of one caller, whose streams share it
  int64_t state_bytes = 0;      // of one stream
  int runs = 0;
  std::vector<StepSpeed> steps;
};

/// Runs batches of generated frames for about `seconds`, log-softmax included. `roofline` false leaves the shares at 0
/// and saves their measurement (about half a second).
PlanSpeed MeasurePlan(const Plan& plan, int batch, double seconds, bool roofline = false);

struct MachineLimits {
  double bytes_per_second = 0;       // reading memory far larger than the caches
  double operations_per_second = 0;  // dense kernel of this type on data in the nearest cache
};
MachineLimits MeasureLimits(DataType type, Isa isa);

}  // namespace antiphon::infer
