// Elastic averaging: synchronous (plan/periodic.cc), and asynchronous over shards that the workers serve
// (plan/asynchronous.cc).
#include <fmt/format.h>

#include "parallel/elastic_cost.h"

namespace antiphon::parallel {
namespace {

class AsynchronousEasgdCost : public plan::CostMethod {
 public:
  plan::Played Play(const plan::Setting& setting) const override {
    return PlayAsynchronous(setting,
                            {.judged = false, .steps = setting.plan.sync_period, .pieces = LayerByLayer(setting)});
  }
  double Copies(const plan::CostNetwork&, const plan::CostPlan& plan) const override {
    return plan.workers == 1 ? 0 : 4 + 1.0 / plan.workers;
  }
  int Ranks(const plan::CostPlan& plan) const override { return plan.workers + plan.servers; }
  std::string PassesKey(const plan::CostPlan&) const override { return "easgd"; }
  double PassesFactor(const plan::CostPlan& plan, const plan::CostResult&) const override {
    return ElasticFactor(plan);
  }
  std::string Strategy(const plan::CostPlan&) const override { return "easgd"; }
  std::string Keys(const plan::CostNetwork&, const plan::CostPlan& plan) const override {
    return fmt::format("asynchronous = true\nsync-period = {}\n", plan.sync_period);
  }
};

REGISTER_COMPONENT(plan::CostMethodRegistry, "easgd",
                   [] { return std::make_unique<ElasticCost>(4, "easgd", "elastic averaging"); });
REGISTER_COMPONENT(plan::CostMethodRegistry, "eamsgd",
                   [] { return std::make_unique<ElasticCost>(4, "eamsgd", "elastic averaging with momentum"); });
REGISTER_COMPONENT(plan::CostMethodRegistry, "easgd-async", [] { return std::make_unique<AsynchronousEasgdCost>(); });

}  // namespace
}  // namespace antiphon::parallel
