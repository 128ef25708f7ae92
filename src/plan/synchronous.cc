// Synchronous SGD: every step, all workers sum their gradients and take the same step. Also 1-bit, half and sparse
// gradients: bits_per_value and codec_gb_s.
//
// Schedule of a worker: forward through all layers; backward from the top; each layer's gradient goes into the exchange
// when it is there (with `overlap`; else all together at the end), one layer after the other; the step follows when all
// sums are back. With `divide` only a worker's own part of a sum comes to it; when it has them all, the workers send
// each other their parts of the stepped values, in fp32, layer by layer. Codec, on the device: a worker encodes its
// gradient, decodes the parts that it sums and adds them, encodes the sum, and decodes all sums, 1 + 1/N passes of
// encoding and 2 of decoding, at the speeds of cluster.host.codecs or, where these are not given, codec_gb_s. The
// update itself is not counted.
#include "plan/schedules.h"

namespace antiphon::plan {
namespace {

using comm::CostProcess;
using comm::Task;

constexpr int kReadyTag = 0;
constexpr int kDoneTag = 1;
constexpr int kExchangeTag = 2;

struct Schedule {
  const Setting& setting;
  int steps;
  std::vector<double> bytes;      // of each exchange, in their order
  double codec_seconds_per_byte;  // of fp32 gradient
  double begin = 0;               // of the steady state, on rank 0
  double end = 0;
};

Task Compute(CostProcess& me, Schedule& s) {
  const CostNetwork& network = s.setting.network;
  const CostPlan& plan = s.setting.plan;
  const double frames = plan.minibatch;
  double forward = 0;
  for (const CostLayer& layer : network.layers) forward += layer.forward_flops;
  for (int step = 0; step < s.steps; ++step) {
    if (me.rank() == 0 && step == s.steps / 4) s.begin = me.now();
    for (int i = 1; i < plan.accumulate; ++i) co_await me.Compute(network.flops() * frames, frames);
    co_await me.Compute(forward * frames, frames);
    for (size_t i = network.layers.size(); i-- > 0;) {
      co_await me.Compute(network.layers[i].backward_flops * frames, frames);
      if (plan.overlap || i == 0) me.Signal(kReadyTag);
    }
    co_await me.Receive(me.rank(), kDoneTag);
  }
  if (me.rank() == 0) s.end = me.now();
}

Task SumGradients(CostProcess& me, Schedule& s) {
  const CostPlan& plan = s.setting.plan;
  const Group group{0, plan.workers, 1, kExchangeTag};
  const Exchange how = ExchangeOf(plan, Exchange::kTwoStage);
  for (int step = 0; step < s.steps; ++step) {
    for (const double bytes : s.bytes) {
      co_await me.Receive(me.rank(), kReadyTag);
      if (plan.workers > 1) co_await me.Occupy(bytes * s.codec_seconds_per_byte);
      const double sent = bytes * BitsPerValue(plan) / 32;
      if (plan.divide.empty()) {
        co_await AllReduce(me, group, me.rank(), sent, how);
      } else {
        co_await OneStage(me, group, me.rank(), sent, Stage::kReduce);
      }
    }
    for (size_t i = 0; i < s.bytes.size() && !plan.divide.empty(); ++i) {
      co_await OneStage(me, group, me.rank(), s.bytes[i], Stage::kGather);
    }
    me.Signal(kDoneTag);
  }
}

}  // namespace

Played PlaySynchronous(const Setting& setting) {
  const CostPlan& plan = setting.plan;
  comm::CostWorld world(plan.workers, setting.cluster);
  Schedule schedule{setting, StepsToPlay(setting), {}, CodecSecondsPerByte(setting, plan.workers)};
  if (plan.overlap) {
    for (size_t i = setting.network.layers.size(); i-- > 0;) {
      schedule.bytes.push_back(4 * setting.network.layers[i].weights);
    }
  } else {
    schedule.bytes = {4 * setting.network.weights()};
  }
  std::vector<CostProcess*> workers;
  for (int r = 0; r < plan.workers; ++r) {
    CostProcess& compute = world.AddProcess(r);
    CostProcess& exchange = world.AddProcess(r);
    world.Start(compute, Compute(compute, schedule));
    world.Start(exchange, SumGradients(exchange, schedule));
    workers.push_back(&compute);
  }
  world.Run();
  const double step_frames = static_cast<double>(plan.workers) * plan.minibatch * plan.accumulate;
  return InLockstep(world, workers, schedule.begin, schedule.end, step_frames, schedule.steps);
}

}  // namespace antiphon::plan
