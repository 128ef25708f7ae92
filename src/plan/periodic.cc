// Model averaging, natural gradient with averaging, BMUF, synchronous EASGD, ADMM: workers learn alone for sync_period
// steps, then exchange whole models.
//
// Schedule of a worker: sync_period steps of work, counted as one piece; then an all-reduce of the model, during which
// nothing is computed. What the methods do with the sum costs little beside it and is not counted.
#include "plan/schedules.h"

namespace antiphon::plan {
namespace {

using comm::CostProcess;
using comm::Task;

constexpr int kModelsTag = 0;

struct PeriodSchedule {
  const Setting& setting;
  int periods;
  double begin = 0;
  double end = 0;
};

Task Work(CostProcess& me, PeriodSchedule& s) {
  const CostPlan& plan = s.setting.plan;
  const Group group{0, plan.workers, 1, kModelsTag};
  const Exchange how = ExchangeOf(plan, Exchange::kPieces);
  const double flops = s.setting.network.flops() * plan.minibatch * plan.sync_period;
  const double bytes = 4 * s.setting.network.weights();
  for (int period = 0; period < s.periods; ++period) {
    if (me.rank() == 0 && period == s.periods / 4) s.begin = me.now();
    co_await me.Compute(flops, plan.minibatch);
    co_await AllReduce(me, group, me.rank(), bytes, how);
  }
  if (me.rank() == 0) s.end = me.now();
}

}  // namespace

Played PlayPeriodic(const Setting& setting) {
  const CostPlan& plan = setting.plan;
  comm::CostWorld world(plan.workers, setting.cluster);
  PeriodSchedule schedule{setting, StepsToPlay(setting)};
  std::vector<CostProcess*> workers;
  for (int r = 0; r < plan.workers; ++r) {
    CostProcess& worker = world.AddProcess(r);
    world.Start(worker, Work(worker, schedule));
    workers.push_back(&worker);
  }
  world.Run();
  const double period_frames = static_cast<double>(plan.workers) * plan.minibatch * plan.sync_period;
  return InLockstep(world, workers, schedule.begin, schedule.end, period_frames, schedule.periods);
}

}  // namespace antiphon::plan
