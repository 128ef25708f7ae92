#include "plan/passes.h"

namespace antiphon::plan {
namespace {

double MeasuredFactor(const CostPlan& plan, const MeasuredPasses& measured) {
  return measured.Of(MethodOf(plan).PassesKey(plan));
}

}  // namespace

std::vector<PassesRule> PassesRules() {
  std::vector<PassesRule> all;
  for (const std::string& name : CostMethodRegistry::Get().Names()) {
    for (PassesRule& rule : CostMethodRegistry::Get().Create(name)->PassesRules()) all.push_back(std::move(rule));
  }
  return all;
}

double PassesFactor(const CostPlan& plan, const CostResult& result, const MeasuredPasses& measured) {
  if (plan.workers == 1) return 1;
  if (const double factor = MeasuredFactor(plan, measured); factor > 0) return factor;
  return MethodOf(plan).PassesFactor(plan, result);
}

std::string TooFar(const CostPlan& plan, const CostResult& result, const MeasuredPasses& measured) {
  if (plan.workers == 1 || MeasuredFactor(plan, measured) > 0) return "";
  return MethodOf(plan).TooFar(plan, result);
}

}  // namespace antiphon::plan
