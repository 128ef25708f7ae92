// Model parallelism: each layer's rows are spread over the `group` devices of a group; hybrid: several groups take
// minibatches of their own and sum their gradients.
//
// Schedule of a device: forward, layer by layer: its rows' products, then every member gives its part of the outputs to
// all. Backward: the product that passes the derivative down; every member sends each other one the columns of its sum
// that are the other's, which travel while it computes its weights' gradient, and adds up what it gets. At the end the
// devices that hold the same rows sum their gradients over the groups (in pieces).
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "plan/cost_method.h"

namespace antiphon::parallel {
namespace {

using comm::CostProcess;
using comm::Task;
using plan::CostLayer;
using plan::CostNetwork;
using plan::CostPlan;
using plan::CostResult;
using plan::Exchange;
using plan::Group;
using plan::Played;
using plan::Setting;

constexpr int kOutputTag = 0;
constexpr int kPassedDownTag = 1;
constexpr int kGradientTag = 3;
constexpr int kFrontTag = 6;

// Beside what only the softmax's maxima and sums need, with the lowest `front` layers data-parallel.
double ExchangedBytes(const CostNetwork& network, const CostPlan& plan, size_t front) {
  double bytes = 0;
  for (size_t i = 0; i + 1 < network.layers.size(); ++i) {
    if (i < front) bytes += 8 * network.layers[i].weights;
    if (i + 1 >= front) bytes += 8 * network.layers[i].out_dim * plan.minibatch;
  }
  return bytes;
}

// Layers that are data-parallel.
size_t FrontOf(const CostNetwork& network, const CostPlan& plan) {
  const size_t most = network.layers.size() - 1;
  if (plan.front_layers > static_cast<int>(most)) {
    Throw<UsageError>("front-layers = {} leaves nothing to divide: take {} at most", plan.front_layers, most);
  }
  if (plan.front_layers >= 0) return static_cast<size_t>(plan.front_layers);
  size_t best = 0;
  for (size_t front = 1; front <= most; ++front) {
    if (ExchangedBytes(network, plan, front) < ExchangedBytes(network, plan, best)) best = front;
  }
  return best;
}

double FrontWeights(const CostNetwork& network, const CostPlan& plan) {
  double weights = 0;
  for (size_t i = 0; i < FrontOf(network, plan); ++i) weights += network.layers[i].weights;
  return weights;
}

double HeldWeights(const CostNetwork& network, const CostPlan& plan) {
  const double front = FrontWeights(network, plan);
  return front + (network.weights() - front) / plan.group;
}

struct StripeSchedule {
  const Setting& setting;
  int steps;
  size_t front;
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

Task StripeDevice(CostProcess& me, StripeSchedule& s) {
  const CostPlan& plan = s.setting.plan;
  const std::vector<CostLayer>& layers = s.setting.network.layers;
  const double frames = plan.minibatch;
  const int column = me.rank() / plan.group;
  const int row = me.rank() % plan.group;
  const Group outputs{column * plan.group, plan.group, 1, kOutputTag};
  const Group derivatives{column * plan.group, plan.group, 1, kPassedDownTag};
  const Group rows{row, plan.workers / plan.group, plan.group, kGradientTag};
  const Group whole{column * plan.group, plan.group, 1, kFrontTag};
  const double own_frames = frames / plan.group;
  const double front_bytes = 4 * FrontWeights(s.setting.network, plan);
  for (int step = 0; step < s.steps; ++step) {
    if (me.rank() == 0 && step == s.steps / 4) s.begin = me.now();
    for (size_t i = 0; i < s.front; ++i) co_await me.Compute(layers[i].forward_flops * own_frames, own_frames);
    if (s.front > 0) {
      co_await SendParts(me, outputs, row, 4 * layers[s.front - 1].out_dim * frames);
      co_await ReceiveParts(me, outputs);
    }
    for (size_t i = s.front; i < layers.size(); ++i) {
      co_await me.Compute(layers[i].forward_flops * frames / plan.group, frames);
      // Of the last layer only the softmax's maxima and sums go round.
      const bool last = i + 1 == layers.size();
      co_await SendParts(me, outputs, row, last ? 8 * frames * plan.group : 4 * layers[i].out_dim * frames);
      co_await ReceiveParts(me, outputs);
    }
    for (size_t i = layers.size(); i-- > s.front;) {
      // The lowest layer passes nothing down; in the others that takes as much as the forward product.
      const double passing = i > 0 ? layers[i].forward_flops : 0;
      if (i > 0) {
        co_await me.Compute(passing * frames / plan.group, frames);
        co_await SendParts(me, derivatives, row, 4 * layers[i - 1].out_dim * frames);
      }
      co_await me.Compute((layers[i].backward_flops - passing) * frames / plan.group, frames);
      if (i > 0) co_await ReceiveParts(me, derivatives);
    }
    for (size_t i = s.front; i-- > 0;) co_await me.Compute(layers[i].backward_flops * own_frames, own_frames);
    if (s.front > 0) co_await plan::AllReduce(me, whole, row, front_bytes, plan::ExchangeOf(plan, Exchange::kPieces));
    const double fp32_bytes = 4 * HeldWeights(s.setting.network, plan);
    if (rows.size > 1) co_await me.Occupy(fp32_bytes * plan::CodecSecondsPerByte(s.setting, rows.size));
    const double bytes = fp32_bytes * plan::BitsPerValue(plan) / 32;
    co_await plan::AllReduce(me, rows, column, bytes, plan::ExchangeOf(plan, Exchange::kPieces));
  }
  if (me.rank() == 0) s.end = me.now();
}

Played PlayModelParallel(const Setting& setting) {
  const CostPlan& plan = setting.plan;
  comm::CostWorld world(plan.workers, setting.cluster);
  StripeSchedule schedule{setting, plan::StepsToPlay(setting), FrontOf(setting.network, plan)};
  std::vector<CostProcess*> devices;
  for (int r = 0; r < plan.workers; ++r) {
    CostProcess& device = world.AddProcess(r);
    world.Start(device, StripeDevice(device, schedule));
    devices.push_back(&device);
  }
  world.Run();
  const int groups = plan.workers / plan.group;
  const double step_frames = static_cast<double>(plan.minibatch) * groups;
  return plan::InLockstep(world, devices, schedule.begin, schedule.end, step_frames, schedule.steps);
}

constexpr int kLargestGroup = 16;  // that is tried

class ModelParallelCost : public plan::CostMethod {
 public:
  Played Play(const Setting& setting) const override { return PlayModelParallel(setting); }
  void Check(const CostPlan& plan) const override { plan::RequireGroups(plan); }
  // Gradients: where there are several groups all, and those that a group sums.
  double Copies(const CostNetwork& network, const CostPlan& plan) const override {
    return (IsHybrid(plan) ? 1 : 0) + FrontWeights(network, plan) / HeldWeights(network, plan);
  }
  double MemoryBytes(const CostNetwork& network, const CostPlan& plan) const override {
    const double held = 1 + Copies(network, plan) + plan.optimizer_values;
    return held * 4 * HeldWeights(network, plan) + plan::ActivationBytes(network, plan);
  }

  std::vector<plan::PassesRule> PassesRules() const override {
    return {{"model-parallel", "model-parallel", "as ssgd with one worker per group",
             "the same arithmetic as serial training's", "training with layers striped over devices"}};
  }
  std::string PassesKey(const CostPlan&) const override { return "model-parallel"; }
  std::string TooFar(const CostPlan& plan, const CostResult&) const override {
    return plan::StepTooLarge(plan::StepFrames(plan, plan.group), plan.minibatch);
  }

  std::vector<CostPlan> Variants(const CostPlan& base, int devices, double) const override {
    std::vector<CostPlan> plans;
    for (int group = 2; group <= std::min(devices, kLargestGroup); ++group) {
      for (const int front : {0, -1}) {
        plans.push_back(base);
        plans.back().group = group;
        plans.back().front_layers = front;
      }
    }
    return plans;
  }
  std::vector<int> WorkerCounts(const CostPlan& plan, int devices) const override {
    return plan::MultiplesUpTo(plan.group, devices);
  }
  int RanksPerReplica(const CostPlan& plan) const override { return plan.group; }
  std::string NameOf(const CostPlan& plan) const override { return IsHybrid(plan) ? "hybrid" : plan.method; }
  int Effort(const CostPlan& plan) const override { return IsHybrid(plan) ? 8 : 7; }
  std::string Details(const CostNetwork& network, const CostPlan& plan) const override {
    const size_t front = FrontOf(network, plan);
    return (IsHybrid(plan) ? fmt::format(", groups of {}", plan.group) : "") +
           (front > 0 ? fmt::format(", the lowest {} layer(s) data-parallel", front) : "");
  }
  // A hidden layer is a product and an activation.
  std::string Keys(const CostNetwork& network, const CostPlan& plan) const override {
    const size_t front = FrontOf(network, plan);
    return fmt::format("stripes = {}\n", plan.group) +
           (front > 0 ? fmt::format("data-parallel-layers = {}\n", 2 * front) : "");
  }

 private:
  static bool IsHybrid(const CostPlan& plan) { return plan.workers > plan.group; }
};

REGISTER_COMPONENT(plan::CostMethodRegistry, "model-parallel", [] { return std::make_unique<ModelParallelCost>(); });

}  // namespace
}  // namespace antiphon::parallel
