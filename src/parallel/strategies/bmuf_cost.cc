// Blockwise model-update filtering (plan/periodic.cc).
#include "parallel/periodic_cost.h"

namespace antiphon::parallel {
namespace {

using plan::CostPlan;
using plan::CostResult;

constexpr double kSafeBlockWorkers = 64;
constexpr double kSafeBlock = 120000;  // frames of a worker
constexpr double kBlockSurcharge = 0.03;
constexpr double kMostBlockWorkers = 256;

class BmufCost : public PeriodicCost {
 public:
  BmufCost() : PeriodicCost(5) {}
  std::vector<plan::PassesRule> PassesRules() const override {
    return {{"bmuf", "bmuf",
             "none up to 64 workers and blocks of 120,000 frames; 3 % per doubling of either beyond; refused beyond "
             "256 workers",
             "Chen, Huo 2016: no loss on 64 GPUs, blocks of 40,000 to 120,000 frames per worker; here 4 workers cost "
             "0.7 ± 0.6 points. The surcharges are assumed",
             "blockwise model-update filtering"}};
  }
  std::string PassesKey(const CostPlan&) const override { return "bmuf"; }
  double PassesFactor(const CostPlan& plan, const CostResult&) const override {
    const double block = static_cast<double>(plan.sync_period) * plan.minibatch;
    return 1 +
           kBlockSurcharge * (plan::Doublings(plan.workers, kSafeBlockWorkers) + plan::Doublings(block, kSafeBlock));
  }
  std::string TooFar(const CostPlan& plan, const CostResult&) const override {
    if (plan.workers <= kMostBlockWorkers) return "";
    return fmt::format("{} workers, beyond {:.0f}", plan.workers, kMostBlockWorkers);
  }
  std::vector<CostPlan> Variants(const CostPlan& base, int, double) const override { return WithPeriods(base); }
  int Effort(const CostPlan&) const override { return 3; }
};

REGISTER_COMPONENT(plan::CostMethodRegistry, "bmuf", [] { return std::make_unique<BmufCost>(); });

}  // namespace
}  // namespace antiphon::parallel
