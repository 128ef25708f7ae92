// Serial training: one device, and nothing is exchanged.
#include "base/error.h"
#include "plan/cost_method.h"

namespace antiphon::parallel {
namespace {

class SerialCost : public plan::CostMethod {
 public:
  plan::Played Play(const plan::Setting& setting) const override { return PlaySynchronous(setting); }
  void Check(const plan::CostPlan& plan) const override {
    if (plan.workers != 1) Throw<UsageError>("serial training is for one worker, but there are {}", plan.workers);
  }
  double Copies(const plan::CostNetwork&, const plan::CostPlan&) const override { return 0; }
  std::vector<plan::CostPlan> Variants(const plan::CostPlan& base, int, double) const override { return {base}; }
  std::vector<int> WorkerCounts(const plan::CostPlan&, int) const override { return {1}; }
  int Effort(const plan::CostPlan&) const override { return 0; }
};

REGISTER_COMPONENT(plan::CostMethodRegistry, "serial", [] { return std::make_unique<SerialCost>(); });

}  // namespace
}  // namespace antiphon::parallel
