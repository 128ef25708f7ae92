// Hessian-free training: one master asks, all workers compute on the data that they hold.
//
// Schedule of an outer step: every worker passes forward and backward over `sync_period` minibatches; the gradient and
// its squares are summed (in double precision, by a tree); then for each of `cg_iterations` the vector goes to all,
// each computes its product with the curvature on `curvature_minibatches`, and these are summed; then for each of
// kLosses models (backtracking and line search; how many it takes is assumed) the model goes to all, and each passes
// forward over `check_minibatches`. The master's own work on vectors is not counted. Frames are those of the gradient,
// so that frames/s tell how long a step takes, not how many steps are needed.
#include "parallel/cost/schedules.h"

namespace antiphon::parallel::cost {
namespace {

using comm::CostProcess;
using comm::Task;

constexpr int kSumTag = 0;
constexpr int kLosses = 6;
constexpr int kSteps = 4;         // outer ones, each long
constexpr double kWordBytes = 8;  // sums go in double precision

struct Schedule {
  const Setting& setting;
  double begin = 0;
  double end = 0;
};

Task Worker(CostProcess& me, Schedule& s) {
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
    for (int sum = 0; sum < 2; ++sum) co_await AllReduce(me, group, me.rank(), kWordBytes * values, Exchange::kTree);
    for (int i = 0; i < plan.cg_iterations; ++i) {
      co_await Broadcast(me, group, me.rank(), 4 * values);
      co_await me.Compute(curvature * frames * plan.curvature_minibatches, frames);
      co_await AllReduce(me, group, me.rank(), kWordBytes * values, Exchange::kTree);
    }
    for (int i = 0; i < kLosses; ++i) {
      co_await Broadcast(me, group, me.rank(), 4 * values);
      co_await me.Compute(forward * frames * plan.check_minibatches, frames);
      co_await AllReduce(me, group, me.rank(), 2 * kWordBytes, Exchange::kTree);
    }
  }
  if (me.rank() == 0) s.end = me.now();
}

}  // namespace

Played PlayHessianFree(const Setting& setting) {
  comm::CostWorld world(setting.plan.workers, setting.cluster);
  Schedule schedule{setting};
  std::vector<CostProcess*> workers;
  for (int r = 0; r < setting.plan.workers; ++r) {
    CostProcess& worker = world.AddProcess(r);
    world.Start(worker, Worker(worker, schedule));
    workers.push_back(&worker);
  }
  world.Run();
  const double step_frames =
      static_cast<double>(setting.plan.workers) * setting.plan.minibatch * setting.plan.sync_period;
  return InLockstep(world, workers, schedule.begin, schedule.end, step_frames, kSteps);
}

}  // namespace antiphon::parallel::cost
