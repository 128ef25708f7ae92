// Hessian-free training: one master asks, all workers compute on the data that they hold.
//
// Schedule of an outer step: every worker passes forward and backward over `sync_period` minibatches; the gradient and
// its squares are summed (in double precision); then for each of `cg_iterations` the vector goes to all,
// each computes its product with the curvature on `curvature_minibatches`, and these are summed; then for each of
// kLosses models (backtracking and line search; how many it takes is assumed) the model goes to all, and each passes
// forward over `check_minibatches`. The master's own work on vectors is not counted. Frames are those of the gradient,
// so that frames/s tell how long a step takes, not how many steps are needed.
#include "optim/conjugate_gradient.h"
#include "plan/cost_method.h"

namespace antiphon::parallel {
namespace {

using comm::CostProcess;
using comm::Task;
using plan::CostLayer;
using plan::CostNetwork;
using plan::CostPlan;
using plan::Exchange;
using plan::Group;
using plan::Played;
using plan::Setting;

constexpr int kSumTag = 0;
constexpr int kLosses = 6;
constexpr int kSteps = 4;         // outer ones, each long
constexpr double kWordBytes = 8;  // sums go in double precision

struct OuterStepSchedule {
  const Setting& setting;
  double begin = 0;
  double end = 0;
};

Task Worker(CostProcess& me, OuterStepSchedule& s) {
  const CostPlan& plan = s.setting.plan;
  const CostNetwork& network = s.setting.network;
  const Group group{0, plan.workers, 1, kSumTag};
  const double frames = plan.minibatch;
  double forward = 0;
  for (const CostLayer& layer : network.layers) forward += layer.forward_flops;
  // Forward, the derivative along the vector, backward.
  const double curvature = network.flops() + 2 * forward - network.layers.front().forward_flops;
  const double values = network.weights();
  for (int step = 0; step < kSteps; ++step) {
    if (me.rank() == 0 && step == kSteps / 4) s.begin = me.now();
    co_await me.Compute(network.flops() * frames * plan.sync_period, frames);
    for (int sum = 0; sum < 2; ++sum)
      co_await plan::AllReduce(me, group, me.rank(), kWordBytes * values, Exchange::kPieces);
    for (int i = 0; i < plan.cg_iterations; ++i) {
      co_await plan::Broadcast(me, group, me.rank(), 4 * values);
      co_await me.Compute(curvature * frames * plan.curvature_minibatches, frames);
      co_await plan::AllReduce(me, group, me.rank(), kWordBytes * values, Exchange::kPieces);
    }
    for (int i = 0; i < kLosses; ++i) {
      co_await plan::Broadcast(me, group, me.rank(), 4 * values);
      co_await me.Compute(forward * frames * plan.check_minibatches, frames);
      co_await plan::AllReduce(me, group, me.rank(), 2 * kWordBytes, Exchange::kPieces);
    }
  }
  if (me.rank() == 0) s.end = me.now();
}

Played PlayHessianFree(const Setting& setting) {
  comm::CostWorld world(setting.plan.workers, setting.cluster);
  OuterStepSchedule schedule{setting};
  std::vector<CostProcess*> workers;
  for (int r = 0; r < setting.plan.workers; ++r) {
    CostProcess& worker = world.AddProcess(r);
    world.Start(worker, Worker(worker, schedule));
    workers.push_back(&worker);
  }
  world.Run();
  const double step_frames =
      static_cast<double>(setting.plan.workers) * setting.plan.minibatch * setting.plan.sync_period;
  return plan::InLockstep(world, workers, schedule.begin, schedule.end, step_frames, kSteps);
}

class HessianFreeCost : public plan::CostMethod {
 public:
  Played Play(const Setting& setting) const override { return PlayHessianFree(setting); }
  // As HessianFree::copy_bytes counts for rank 0.
  double Copies(const CostNetwork&, const CostPlan& plan) const override {
    const double vectors = 3 + 12 + static_cast<double>(optim::KeptIterates({.max_iterations = plan.cg_iterations}));
    return 4 + 2 * vectors;
  }
  double MemoryBytes(const CostNetwork& network, const CostPlan& plan) const override {
    return (1 + Copies(network, plan)) * 4 * network.weights() +
           (plan.curvature_minibatches + plan.check_minibatches) * 4.0 * network.in_dim * plan.minibatch +
           3 * plan::ActivationBytes(network, plan);
  }
};

REGISTER_COMPONENT(plan::CostMethodRegistry, "hessian-free", [] { return std::make_unique<HessianFreeCost>(); });

}  // namespace
}  // namespace antiphon::parallel
