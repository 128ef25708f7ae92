// Passes of methods whose workers keep models of their own and are pulled towards a common one: elastic averaging and
// the consensus.
//
// Threads: plain functions.
#pragma once

#include <string>

#include "plan/cost_method.h"

namespace antiphon::parallel {

inline constexpr double kElasticSurcharge = 0.15;  // per doubling of workers

inline plan::PassesRule ElasticRule(const std::string& key, const std::string& title) {
  return {key, key, "15 % per doubling of workers",
          "here, after as many passes: 1.2 to 1.8 points less than serial training on 2 workers, 1.7 to 2.5 on 4, 5.3 "
          "to 8.2 on 8; a point is taken for a tenth of the passes",
          title};
}

inline double ElasticFactor(const plan::CostPlan& plan) {
  return 1 + kElasticSurcharge * plan::Doublings(plan.workers, 1);
}

}  // namespace antiphon::parallel
