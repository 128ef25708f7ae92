// How many more passes over the data a method needs than serial training to become as accurate.
//
// Up to the sizes at which published experiments (or this project's, docs/results) saw no loss, none; beyond them a
// surcharge per doubling, which is assumed; far beyond them the plan is refused. Each method states its rules beside
// its schedule (plan/cost_method.h). Whoever has measured a method on his own task gives its factor instead.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/cost_method.h"

namespace antiphon::plan {

/// The rules of all methods, by name.
std::vector<PassesRule> PassesRules();

/// By PassesRule::key; 0: by the rules.
struct MeasuredPasses {
  std::map<std::string, double> factors;
  double Of(const std::string& key) const {
    const auto factor = factors.find(key);
    return factor == factors.end() ? 0.0 : factor->second;
  }
  template <class V>
  void Visit(V& v) {
    for (const PassesRule& rule : PassesRules()) {
      v(rule.key, factors[rule.key], Range{0, 1e3},
        "passes that " + rule.title + " needs for each of serial training; 0: by the rules");
    }
  }
};

/// Factor on the passes of serial training: 1 as many.
double PassesFactor(const CostPlan& plan, const CostResult& result, const MeasuredPasses& measured);

/// Why the plan is too far from anything that is known to learn; empty if it is not. A method whose factor was measured
/// is not refused.
std::string TooFar(const CostPlan& plan, const CostResult& result, const MeasuredPasses& measured);

}  // namespace antiphon::plan
