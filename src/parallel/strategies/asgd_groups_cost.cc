// Asynchronous SGD whose slaves are groups of ranks (plan/asynchronous.cc): a slave takes as long for a minibatch as
// model parallelism does.
#include <fmt/format.h>

#include "base/error.h"
#include "parallel/staleness_cost.h"

namespace antiphon::parallel {
namespace {

using plan::CostNetwork;
using plan::CostPlan;
using plan::Setting;

// A minibatch of one slave, in seconds of its slowest rank, as work for a device.
double GroupFlops(const Setting& setting) {
  CostPlan plan = setting.plan;
  plan.method = "model-parallel";
  plan.workers = plan.group;
  comm::ClusterOptions cluster = setting.cluster;
  cluster.host.jitter = 0;
  cluster.host.straggler_ranks.clear();
  cluster.host.failing_ranks.clear();
  cluster.host.failing_seconds.clear();
  const plan::Played played = plan::MethodOf(plan).Play({setting.network, plan, cluster});
  const double per_frames = 1 + cluster.host.half_speed_frames / plan.minibatch;
  return played.seconds / played.frames * plan.minibatch * 1e9 * cluster.host.gflops / per_frames;
}

class AsgdGroupsCost : public StalenessCost {
 public:
  AsgdGroupsCost() : StalenessCost("asgd-groups", "asynchronous SGD of slaves that are groups") {}
  plan::Played Play(const Setting& setting) const override {
    return PlayAsynchronous(
        setting, {.stripes = setting.plan.group, .steps = setting.plan.accumulate, .pieces = {GroupFlops(setting)}});
  }
  void Check(const CostPlan& plan) const override {
    plan::RequireGroups(plan);
    if (plan.front_layers != 0) throw UsageError("front-layers has a schedule for model-parallel alone: leave it out");
  }
  // As pulled, on their way, and of the servers' shares.
  double Copies(const CostNetwork&, const CostPlan& plan) const override {
    return 2 + static_cast<double>(plan.group) / plan.workers;
  }
  double MemoryBytes(const CostNetwork& network, const CostPlan& plan) const override {
    const double held = 1 + Copies(network, plan) + plan.optimizer_values;
    return held * 4 * network.weights() / plan.group + plan::ActivationBytes(network, plan);
  }
  int Ranks(const CostPlan& plan) const override { return plan.workers + plan.servers; }
  int RanksPerReplica(const CostPlan& plan) const override { return plan.group; }
  std::vector<int> WorkerCounts(const CostPlan& plan, int devices) const override {
    return plan::MultiplesUpTo(plan.group, devices);
  }
  std::string Details(const CostNetwork&, const CostPlan& plan) const override {
    return fmt::format(", slaves of {}, {} minibatch(es) per push", plan.group, plan.accumulate);
  }
  std::string Keys(const CostNetwork&, const CostPlan& plan) const override {
    return fmt::format("stripes = {}\npush-every = {}\n", plan.group, plan.accumulate);
  }
};

REGISTER_COMPONENT(plan::CostMethodRegistry, "asgd-groups", [] { return std::make_unique<AsgdGroupsCost>(); });

}  // namespace
}  // namespace antiphon::parallel
