// Asynchronous SGD with a pool of servers, each of which holds a part of the model, and with the host's memory as
// master (plan/asynchronous.cc).
#include <fmt/format.h>

#include "parallel/staleness_cost.h"

namespace antiphon::parallel {
namespace {

using plan::CostNetwork;
using plan::CostPlan;

constexpr int kFewestWithServers = 8;  // devices for each server
constexpr int kUsualPushEvery = 3;     // as asgd.cc has it

class AsgdCost : public StalenessCost {
 public:
  AsgdCost() : StalenessCost("asgd", "asynchronous SGD") {}
  plan::Played Play(const plan::Setting& setting) const override {
    return PlayAsynchronous(setting, {.steps = setting.plan.accumulate, .pieces = LayerByLayer(setting)});
  }
  double Copies(const CostNetwork&, const CostPlan& plan) const override {
    if (plan.workers == 1) return 0;
    return 2 + (plan.overlap_copies ? 1 : 0) + (plan.servers > 0 ? 0 : 1.0 / plan.workers);
  }
  int Ranks(const CostPlan& plan) const override { return plan.workers + plan.servers; }

  // Workers that serve; and a pool of servers, with values that travel meanwhile.
  std::vector<CostPlan> Variants(const CostPlan& base, int devices, double) const override {
    std::vector<CostPlan> plans;
    for (const int accumulate : {1, 4}) {
      plans.push_back(base);
      plans.back().accumulate = accumulate;
      if (devices < kFewestWithServers) continue;
      plans.push_back(plans.back());
      plans.back().servers = devices / kFewestWithServers;
      plans.back().overlap_copies = true;
    }
    return plans;
  }
  std::vector<int> WorkerCounts(const CostPlan& plan, int devices) const override {
    return plan::MultiplesUpTo(1, devices - plan.servers);
  }
  int Effort(const CostPlan&) const override { return 9; }
  std::string Details(const CostNetwork&, const CostPlan& plan) const override {
    const std::string servers = plan.servers > 0 ? fmt::format(", {} of them server(s)", plan.servers) : "";
    return fmt::format("{}, {} minibatch(es) per push{}", servers, plan.accumulate,
                       plan.overlap_copies ? ", values asked for ahead" : "");
  }
  std::string Keys(const CostNetwork&, const CostPlan& plan) const override {
    std::string keys = fmt::format("push-every = {}\n", plan.accumulate);
    if (plan.servers > 0) keys += fmt::format("servers = {}\ndedicated-servers = true\n", plan.servers);
    if (plan.overlap_copies) keys += "overlap = true\n";
    return keys;
  }
};

class HostMasterCost : public StalenessCost {
 public:
  HostMasterCost() : StalenessCost("host-master", "asynchronous SGD with the host as master") {}
  plan::Played Play(const plan::Setting& setting) const override {
    return PlayAsynchronous(setting,
                            {.host_master = true, .steps = setting.plan.accumulate, .pieces = LayerByLayer(setting)});
  }
  double Copies(const CostNetwork&, const CostPlan& plan) const override { return plan.workers == 1 ? 0 : 3; }
  CostPlan Usual(CostPlan base) const override {
    base.accumulate = kUsualPushEvery;
    return base;
  }
  std::string Details(const CostNetwork&, const CostPlan& plan) const override {
    return fmt::format(", {} minibatch(es) per push", plan.accumulate);
  }
  std::string Keys(const CostNetwork&, const CostPlan& plan) const override {
    return fmt::format("push-every = {}\n", plan.accumulate);
  }
};

REGISTER_COMPONENT(plan::CostMethodRegistry, "asgd", [] { return std::make_unique<AsgdCost>(); });
REGISTER_COMPONENT(plan::CostMethodRegistry, "host-master", [] { return std::make_unique<HostMasterCost>(); });

}  // namespace
}  // namespace antiphon::parallel
