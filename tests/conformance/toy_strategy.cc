// A strategy as somebody would add one: this file alone. It is registered in the conformance suite's program, which
// then tries it like every other, and toy_strategy_test.cc holds that `simulate` and `plan` know it.
//
// Exchanged: models, averaged every `sync-period` steps.
#include "parallel/periodic.h"
#include "parallel/periodic_cost.h"

namespace antiphon::parallel {
namespace {

struct ToyOptions {
  PeriodOptions period{.sync_period = 4};
  RateScalingOptions scaling;
  template <class V>
  void Visit(V& v) {
    period.Visit(v);
    scaling.Visit(v);
  }
};

class Toy : public PeriodicStrategy {
 public:
  Toy(const ToyOptions& options, const Replica& replica) : PeriodicStrategy(options.period, options.scaling, replica) {}

 protected:
  void Exchange() override {
    if (comm().world_size() == 1) return;
    Average(network().values());
    std::copy(network().values().begin(), network().values().end(), center().begin());
  }
  bool EvaluationModel(std::span<float>) override { return false; }
};

// Nothing is known of how it learns: the planner's own rule holds.
class ToyCost : public PeriodicCost {
 public:
  ToyCost() : PeriodicCost(2) {}
  std::vector<plan::CostPlan> Variants(const plan::CostPlan& base, int, double) const override {
    return WithPeriods(base);
  }
};

REGISTER_COMPONENT(StrategyRegistry, "toy", [](const Config& config, const Replica& replica) {
  return std::make_unique<Toy>(ReadOptions<ToyOptions>(config, kCommonStrategyKeys), replica);
});
REGISTER_COMPONENT(plan::CostMethodRegistry, "toy", [] { return std::make_unique<ToyCost>(); });

}  // namespace
}  // namespace antiphon::parallel
