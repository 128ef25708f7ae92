// Model averaging (plan/periodic.cc).
#include "parallel/periodic_cost.h"

namespace antiphon::parallel {
namespace {

using plan::CostPlan;
using plan::CostResult;

constexpr double kSafeWorkers = 4;
constexpr double kSafePeriod = 10;  // steps
constexpr double kSurcharge = 0.05;
constexpr double kMostWorkers = 32;

class AveragingCost : public PeriodicCost {
 public:
  AveragingCost() : PeriodicCost(2) {}
  std::vector<plan::PassesRule> PassesRules() const override {
    return {{"averaging", "averaging",
             "none for 4 workers that average every 10 steps; 5 % per doubling of either beyond; refused beyond 32 "
             "workers",
             "Su, Chen 2015: limited loss on 16 and 32 GPUs; here 4 workers cost 0.6 ± 0.3 points. The surcharges are "
             "assumed",
             "model averaging"}};
  }
  std::string PassesKey(const CostPlan&) const override { return "averaging"; }
  double PassesFactor(const CostPlan& plan, const CostResult&) const override {
    return 1 +
           kSurcharge * (plan::Doublings(plan.workers, kSafeWorkers) + plan::Doublings(plan.sync_period, kSafePeriod));
  }
  std::string TooFar(const CostPlan& plan, const CostResult&) const override {
    if (plan.workers <= kMostWorkers) return "";
    return fmt::format("averaging over {} workers, beyond {:.0f}", plan.workers, kMostWorkers);
  }
  std::vector<CostPlan> Variants(const CostPlan& base, int, double) const override { return WithPeriods(base); }
  int Effort(const CostPlan&) const override { return 6; }
};

REGISTER_COMPONENT(plan::CostMethodRegistry, "averaging", [] { return std::make_unique<AveragingCost>(); });

}  // namespace
}  // namespace antiphon::parallel
