// How many more passes over the data a method needs than serial training to become as accurate.
//
// Up to the sizes at which published experiments (or this project's, docs/results.md) saw no loss, none; beyond them a
// surcharge per doubling, which is assumed; far beyond them the plan is refused. Whoever has measured a method on his
// own task gives its factor instead.
#pragma once

#include <string>
#include <vector>

#include "parallel/cost/cost_model.h"

namespace antiphon::parallel {

/// By method; 0: by the rules.
struct MeasuredPasses {
  double ssgd = 0;
  double one_bit = 0;
  double averaging = 0;
  double bmuf = 0;
  double asgd = 0;
  double pipeline = 0;
  double model_parallel = 0;
  template <class V>
  void Visit(V& v) {
    constexpr Range kRange{0, 1e3};
    v("ssgd", ssgd, kRange, "passes that synchronous SGD needs for each of serial training; 0: by the rules");
    v("one-bit", one_bit, kRange, "with codec one-bit");
    v("averaging", averaging, kRange, "with model averaging");
    v("bmuf", bmuf, kRange, "with blockwise model-update filtering");
    v("asgd", asgd, kRange, "with asynchronous SGD");
    v("pipeline", pipeline, kRange, "with pipelined back-propagation");
    v("model-parallel", model_parallel, kRange, "with layers striped over devices");
  }
};

struct PassesRule {
  std::string method;
  std::string rule;
  std::string source;
};
const std::vector<PassesRule>& PassesRules();

/// Factor on the passes of serial training: 1 as many.
double PassesFactor(const CostPlan& plan, const CostResult& result, const MeasuredPasses& measured);

/// Why the plan is too far from anything that is known to learn; empty if it is not. A method whose factor was measured
/// is not refused.
std::string TooFar(const CostPlan& plan, const CostResult& result, const MeasuredPasses& measured);

}  // namespace antiphon::parallel
