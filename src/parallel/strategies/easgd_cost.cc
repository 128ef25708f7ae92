// Elastic averaging: synchronous (plan/periodic.cc), and asynchronous over shards that the workers serve
// (plan/asynchronous.cc).
#include <fmt/format.h>

#include "parallel/elastic_cost.h"
#include "parallel/periodic_cost.h"

namespace antiphon::parallel {
namespace {

class EasgdCost : public PeriodicCost {
 public:
  explicit EasgdCost(std::string method, std::string title)
      : PeriodicCost(4), method_(std::move(method)), title_(std::move(title)) {}
  std::vector<plan::PassesRule> PassesRules() const override { return {ElasticRule(method_, title_)}; }
  std::string PassesKey(const plan::CostPlan&) const override { return method_; }
  double PassesFactor(const plan::CostPlan& plan, const plan::CostResult&) const override {
    return ElasticFactor(plan);
  }

 private:
  std::string method_;
  std::string title_;
};

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
                   [] { return std::make_unique<EasgdCost>("easgd", "elastic averaging"); });
REGISTER_COMPONENT(plan::CostMethodRegistry, "eamsgd",
                   [] { return std::make_unique<EasgdCost>("eamsgd", "elastic averaging with momentum"); });
REGISTER_COMPONENT(plan::CostMethodRegistry, "easgd-async", [] { return std::make_unique<AsynchronousEasgdCost>(); });

}  // namespace
}  // namespace antiphon::parallel
