// Model parallelism: each layer's rows are spread over the `group` devices of a group; hybrid: several groups take
// minibatches of their own and sum their gradients.
//
// Schedule of a device: forward, layer by layer: its rows' products, then every member gives its part of the outputs to
// all. Backward: the product that passes the derivative down; every member sends each other one the columns of its sum
// that are the other's, which travel while it computes its weights' gradient, and adds up what it gets. At the end the
// devices that hold the same rows sum their gradients over the groups (two-stage).
#include "parallel/cost/schedules.h"

namespace antiphon::parallel::cost {
namespace {

using comm::CostProcess;
using comm::Task;

constexpr int kOutputTag = 0;
constexpr int kDerivativeTag = 1;
constexpr int kGradientTag = 3;

struct Schedule {
  const Setting& setting;
  int steps;
  double begin = 0;
  double end = 0;
};

// To every other member a share of `bytes`.
Task SendParts(CostProcess& me, Group group, int index, double bytes) {
  for (int i = 1; i < group.size; ++i) {
    co_await me.Send(group.Rank((index + i) % group.size), group.tag, bytes / group.size);
  }
}

Task ReceiveParts(CostProcess& me, Group group) {
  for (int i = 1; i < group.size; ++i) co_await me.Receive(CostProcess::kAnySource, group.tag);
}

Task Device(CostProcess& me, Schedule& s) {
  const CostPlan& plan = s.setting.plan;
  const std::vector<CostLayer>& layers = s.setting.network.layers;
  const double frames = plan.minibatch;
  const int column = me.rank() / plan.group;
  const int row = me.rank() % plan.group;
  const Group outputs{column * plan.group, plan.group, 1, kOutputTag};
  const Group derivatives{column * plan.group, plan.group, 1, kDerivativeTag};
  const Group rows{row, plan.workers / plan.group, plan.group, kGradientTag};
  for (int step = 0; step < s.steps; ++step) {
    if (me.rank() == 0 && step == s.steps / 4) s.begin = me.now();
    for (size_t i = 0; i < layers.size(); ++i) {
      co_await me.Compute(layers[i].forward_flops * frames / plan.group, frames);
      // Of the last layer only the softmax's maxima and sums go round.
      const bool last = i + 1 == layers.size();
      co_await SendParts(me, outputs, row, last ? 8 * frames * plan.group : 4 * layers[i].out_dim * frames);
      co_await ReceiveParts(me, outputs);
    }
    for (size_t i = layers.size(); i-- > 0;) {
      // The lowest layer passes nothing down; in the others that takes as much as the forward product.
      const double passing = i > 0 ? layers[i].forward_flops : 0;
      if (i > 0) {
        co_await me.Compute(passing * frames / plan.group, frames);
        co_await SendParts(me, derivatives, row, 4 * layers[i - 1].out_dim * frames);
      }
      co_await me.Compute((layers[i].backward_flops - passing) * frames / plan.group, frames);
      if (i > 0) co_await ReceiveParts(me, derivatives);
    }
    const double fp32_bytes = 4 * s.setting.network.weights() / plan.group;
    if (rows.size > 1) co_await me.Occupy(fp32_bytes * CodecSecondsPerByte(s.setting, rows.size));
    const double bytes = s.setting.network.weights() / plan.group * BitsPerValue(plan) / 8;
    co_await AllReduce(me, rows, column, bytes, ExchangeOf(plan, Exchange::kTwoStage));
  }
  if (me.rank() == 0) s.end = me.now();
}

}  // namespace

Played PlayModelParallel(const Setting& setting) {
  const CostPlan& plan = setting.plan;
  comm::CostWorld world(plan.workers, setting.cluster);
  Schedule schedule{setting, StepsToPlay(setting)};
  std::vector<CostProcess*> devices;
  for (int r = 0; r < plan.workers; ++r) {
    CostProcess& device = world.AddProcess(r);
    world.Start(device, Device(device, schedule));
    devices.push_back(&device);
  }
  world.Run();
  const double step_frames = static_cast<double>(plan.minibatch) * (plan.workers / plan.group);
  return InLockstep(world, devices, schedule.begin, schedule.end, step_frames, schedule.steps);
}

}  // namespace antiphon::parallel::cost
