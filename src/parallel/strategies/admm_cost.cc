// ADMM (plan/periodic.cc).
#include "parallel/elastic_cost.h"
#include "parallel/periodic_cost.h"

namespace antiphon::parallel {
namespace {

class AdmmCost : public PeriodicCost {
 public:
  AdmmCost() : PeriodicCost(5) {}
  std::vector<plan::PassesRule> PassesRules() const override { return {ElasticRule("admm", "the consensus by ADMM")}; }
  std::string PassesKey(const plan::CostPlan&) const override { return "admm"; }
  double PassesFactor(const plan::CostPlan& plan, const plan::CostResult&) const override {
    return ElasticFactor(plan);
  }
};

REGISTER_COMPONENT(plan::CostMethodRegistry, "admm", [] { return std::make_unique<AdmmCost>(); });

}  // namespace
}  // namespace antiphon::parallel
