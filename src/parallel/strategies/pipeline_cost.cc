// Pipelined back-propagation: stages of layers on different devices, the output layer possibly striped over several.
//
// Schedule: in tick c stage k of K first goes backward for minibatch c − 2K + k, with its update, then forward for
// minibatch c − k + 1. Activations go up and derivatives down when they are there; the receiver needs them a tick
// later, so that links work while devices compute (with `overlap`; else the sender stands still until its copy is
// through). Stripes of the output layer agree on the softmax's maxima and sums (8 bytes per frame, a tree over
// stripes), and each sends its part of the derivative down. Balance: the contiguous split with the least work in its
// fullest stage; without given stages, the number of stripes that allows the best such split. Source: Chen, Eversole,
// Li, Yu, Seide, Interspeech 2012.
#include <fmt/format.h>

#include <algorithm>

#include "plan/cost_method.h"
#include "plan/pipeline_split.h"

namespace antiphon::parallel {
namespace {

using comm::CostProcess;
using comm::Task;
using plan::CostNetwork;
using plan::CostPlan;
using plan::CostResult;
using plan::Exchange;
using plan::Group;
using plan::PipelineSplit;
using plan::Played;
using plan::Setting;

constexpr int kUpTag = 0;
constexpr int kDownTag = 1;
constexpr int kSoftmaxTag = 2;

struct Stage {
  double forward = 0;  // FLOP of one device for a minibatch
  double backward = 0;
  double in_bytes = 0;  // of a minibatch's activations below the stage
  int first_rank = 0;
  int devices = 1;
};

struct PipelineSchedule {
  const Setting& setting;
  std::vector<Stage> stages;
  int minibatches;
  int measured_from;
  double begin = 0;
  double end = 0;
};

Task Copied(CostProcess& me, const Setting& setting, int to, int tag, double bytes) {
  co_await me.Send(to, tag, bytes);
  if (!setting.plan.overlap) co_await me.Sleep(me.world().links().IdleSeconds(me.rank(), to, bytes));
}

Task Backward(CostProcess& me, PipelineSchedule& s, int k) {
  const Stage& stage = s.stages[static_cast<size_t>(k)];
  if (k + 1 < static_cast<int>(s.stages.size())) {
    const Stage& above = s.stages[static_cast<size_t>(k) + 1];
    for (int i = 0; i < above.devices; ++i) co_await me.Receive(above.first_rank + i, kDownTag);
  }
  co_await me.Compute(stage.backward, s.setting.plan.minibatch);
  if (k > 0) co_await Copied(me, s.setting, s.stages[static_cast<size_t>(k - 1)].first_rank, kDownTag, stage.in_bytes);
}

Task Forward(CostProcess& me, PipelineSchedule& s, int k) {
  const Stage& stage = s.stages[static_cast<size_t>(k)];
  if (k > 0) co_await me.Receive(s.stages[static_cast<size_t>(k - 1)].first_rank, kUpTag);
  co_await me.Compute(stage.forward, s.setting.plan.minibatch);
  if (k + 1 < static_cast<int>(s.stages.size())) {
    const Stage& above = s.stages[static_cast<size_t>(k) + 1];
    for (int i = 0; i < above.devices; ++i) {
      co_await Copied(me, s.setting, above.first_rank + i, kUpTag, above.in_bytes);
    }
  } else if (stage.devices > 1) {
    const Group stripes{stage.first_rank, stage.devices, 1, kSoftmaxTag};
    co_await plan::AllReduce(me, stripes, me.rank() - stage.first_rank, 8.0 * s.setting.plan.minibatch,
                             Exchange::kPieces);
  }
}

Task StageDevice(CostProcess& me, PipelineSchedule& s, int k) {
  const int num_stages = static_cast<int>(s.stages.size());
  for (int tick = 1; tick < s.minibatches + 2 * num_stages; ++tick) {
    const int backward = tick - 2 * num_stages + (k + 1);
    const int forward = tick - k;
    if (backward >= 1 && backward <= s.minibatches) co_await Backward(me, s, k);
    if (forward >= 1 && forward <= s.minibatches) co_await Forward(me, s, k);
    if (k == 0 && forward == s.measured_from) s.begin = me.now();
    if (k == 0 && forward == s.minibatches) s.end = me.now();
  }
}

std::vector<Stage> MakeStages(const Setting& setting, const PipelineSplit& split) {
  std::vector<Stage> stages;
  size_t layer = 0;
  int rank = 0;
  double in_dim = setting.network.in_dim;
  for (size_t k = 0; k < split.stage_layers.size(); ++k) {
    Stage stage;
    stage.devices = k + 1 == split.stage_layers.size() ? split.stripes : 1;
    stage.first_rank = rank;
    stage.in_bytes = 4 * in_dim * setting.plan.minibatch;
    const double share = static_cast<double>(setting.plan.minibatch) / stage.devices;
    for (int i = 0; i < split.stage_layers[k]; ++i, ++layer) {
      stage.forward += share * setting.network.layers[layer].forward_flops;
      stage.backward += share * setting.network.layers[layer].backward_flops;
      in_dim = setting.network.layers[layer].out_dim;
    }
    rank += stage.devices;
    stages.push_back(stage);
  }
  return stages;
}

Played PlayPipeline(const Setting& setting) {
  const PipelineSplit split = plan::SplitFor(setting.network, setting.plan);
  const auto num_stages = static_cast<int>(split.stage_layers.size());
  PipelineSchedule schedule{setting, MakeStages(setting, split), 4 * num_stages + 2 * plan::StepsToPlay(setting),
                            3 * num_stages};
  comm::CostWorld world(setting.plan.workers, setting.cluster);
  std::vector<CostProcess*> devices;
  for (int k = 0; k < num_stages; ++k) {
    const Stage& stage = schedule.stages[static_cast<size_t>(k)];
    for (int i = 0; i < stage.devices; ++i) {
      CostProcess& device = world.AddProcess(stage.first_rank + i);
      world.Start(device, StageDevice(device, schedule, k));
      devices.push_back(&device);
    }
  }
  world.Run();
  Played played;
  played.frames = static_cast<double>(setting.plan.minibatch) * (schedule.minibatches - schedule.measured_from);
  played.seconds = schedule.end - schedule.begin;
  for (const CostProcess* device : devices) {
    played.compute_seconds += device->compute_seconds();
    played.device_seconds += device->now();
  }
  played.bytes = world.bytes_sent();
  played.all_frames = static_cast<double>(setting.plan.minibatch) * schedule.minibatches;
  played.split = plan::Describe(split);
  return played;
}

constexpr int kSafeStages = 4;
constexpr double kStageSurcharge = 0.05;
constexpr int kMostStages = 8;

class PipelineCost : public plan::CostMethod {
 public:
  Played Play(const Setting& setting) const override { return PlayPipeline(setting); }
  double Copies(const CostNetwork&, const CostPlan&) const override { return 0; }
  double MemoryBytes(const CostNetwork& network, const CostPlan& plan) const override {
    const PipelineSplit split = plan::SplitFor(network, plan);
    const auto stages = static_cast<double>(split.stage_layers.size());
    double fullest = 0;
    size_t layer = 0;
    for (size_t k = 0; k < split.stage_layers.size(); ++k) {
      double weights = 0;
      double outputs = 0;
      for (int i = 0; i < split.stage_layers[k]; ++i, ++layer) {
        weights += network.layers[layer].weights;
        outputs += network.layers[layer].out_dim;
      }
      const double share = k + 1 == split.stage_layers.size() ? 1.0 / split.stripes : 1.0;
      const double minibatches = 2 * (stages - static_cast<double>(k) - 1) + 2;
      fullest = std::max(
          fullest, share * ((1 + plan.optimizer_values) * 4 * weights + 4 * outputs * plan.minibatch * minibatches));
    }
    return fullest;
  }

  std::vector<plan::PassesRule> PassesRules() const override {
    return {{"pipeline", "pipeline", "none up to 4 devices, 5 % per device beyond; refused beyond 8",
             "Chen 2012: no loss on 2 and 4 GPUs. The surcharge is assumed", "pipelined back-propagation"}};
  }
  std::string PassesKey(const CostPlan&) const override { return "pipeline"; }
  double PassesFactor(const CostPlan& plan, const CostResult&) const override {
    return 1 + kStageSurcharge * std::max(0, plan.workers - kSafeStages);
  }
  std::string TooFar(const CostPlan& plan, const CostResult&) const override {
    if (plan.workers <= kMostStages) return "";
    return fmt::format("a pipeline of {} devices, beyond {}: its lowest layers would be too stale", plan.workers,
                       kMostStages);
  }

  std::vector<CostPlan> Variants(const CostPlan& base, int, double) const override { return {base}; }
  int RanksPerReplica(const CostPlan& plan) const override { return plan.workers; }
  int Effort(const CostPlan&) const override { return 5; }
  std::string Keys(const CostNetwork& network, const CostPlan& plan) const override {
    const int stripes = plan::SplitFor(network, plan).stripes;
    return stripes > 1 ? fmt::format("output-stripes = {}\n", stripes) : "";
  }
};

REGISTER_COMPONENT(plan::CostMethodRegistry, "pipeline", [] { return std::make_unique<PipelineCost>(); });

}  // namespace
}  // namespace antiphon::parallel
