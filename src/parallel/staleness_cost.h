// Passes of methods whose gradients are some updates old when they are added: asynchronous SGD in all its forms.
//
// Threads: plain functions.
#pragma once

#include <fmt/format.h>

#include <string>

#include "plan/cost_method.h"

namespace antiphon::parallel {

inline constexpr double kStalenessSurcharge = 0.05;  // per update
inline constexpr double kLargestStaleness = 16;

inline plan::PassesRule StalenessRule(const std::string& key, const std::string& title) {
  return {key, key, "5 % per update that a gradient misses; refused beyond 16",
          "here, after as many passes: 0.1 to 0.4 points less than serial training at 1.1 updates (2 workers), 1.2 to "
          "2.7 at 3 (4 workers), 9 to 17 at 7 (8 workers), 0.3 at 3 with a synchronous epoch first; Zhang 2013: no "
          "loss on 4 GPUs. A point is taken for a tenth of the passes",
          title};
}

inline double StalenessFactor(const plan::CostResult& result) { return 1 + kStalenessSurcharge * result.staleness; }

inline std::string TooStale(const plan::CostPlan& plan, const plan::CostResult& result) {
  if (result.staleness <= kLargestStaleness) return "";
  return fmt::format("gradients {:.0f} updates old with {} workers, beyond {:.0f}", result.staleness, plan.workers,
                     kLargestStaleness);
}

}  // namespace antiphon::parallel
