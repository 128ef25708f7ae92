// Natural gradient with parameter averaging (plan/periodic.cc). How many passes it needs is not known.
#include "parallel/periodic_cost.h"

namespace antiphon::parallel {
namespace {

constexpr double kCombinedModels = 12;  // parts of ten models, and their sum in double

class NaturalGradientAveragingCost : public PeriodicCost {
 public:
  NaturalGradientAveragingCost() : PeriodicCost(3) {}
  double Copies(const plan::CostNetwork& network, const plan::CostPlan& plan) const override {
    return plan.workers == 1 ? 0 : PeriodicCost::Copies(network, plan) + kCombinedModels / plan.workers;
  }
};

REGISTER_COMPONENT(plan::CostMethodRegistry, "natural-gradient-averaging",
                   [] { return std::make_unique<NaturalGradientAveragingCost>(); });

}  // namespace
}  // namespace antiphon::parallel
