// The cost model of divided optimisers and networks, and of values that are asked for ahead; and that simulating stops
// when asked.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/cancel.h"
#include "base/error.h"
#include "comm/cost_world.h"
#include "plan/cost_model.h"

namespace antiphon::plan {
namespace {

constexpr double kSecondsOnItsWay = 50e-6;
constexpr double kBytesPerSecond = 100e6;
const CostNetwork kFourLayers({100, 200, 200, 200, 500});

comm::ClusterOptions HundredMegabytes() {
  comm::ClusterOptions cluster;
  cluster.host.gflops = 10;
  cluster.links.message_us = 0;
  cluster.links.between.bandwidth_mb_s = 1e-6 * kBytesPerSecond;
  cluster.links.between.latency_us = 1e6 * kSecondsOnItsWay;
  return cluster;
}

CostPlan With(const std::string& method, int workers) {
  CostPlan plan;
  plan.method = method;
  plan.workers = workers;
  return plan;
}

TEST(CostWorld, StopsWhenSomebodyAsks) {
  comm::CostWorld world(2, HundredMegabytes());
  const auto forever = [](comm::CostProcess& me) -> comm::Task {
    for (;;) {
      co_await me.Sleep(1);
      if (me.now() == 10'000) RequestCancel();
    }
  };
  comm::CostProcess& process = world.AddProcess(0);
  world.Start(process, forever(process));
  EXPECT_THROW(world.Run(), Cancelled);
  ResetCancel();
}

// The sums' way back is that of the values then; with overlap it comes after the work.
TEST(CostModel, DividedStepsSendNoMoreAndOverlapHalf) {
  CostPlan plan = With("ssgd", 8);
  plan.overlap = false;
  const CostResult whole = SimulateCost(kFourLayers, plan, HundredMegabytes());
  plan.divide = "gradients";
  const CostResult divided = SimulateCost(kFourLayers, plan, HundredMegabytes());
  // Layer by layer, each with a latency of its own.
  const auto latencies = static_cast<double>(kFourLayers.layers.size() - 1) * kSecondsOnItsWay;
  EXPECT_NEAR(8 * 256 / divided.frames_per_second, 8 * 256 / whole.frames_per_second, latencies + 1e-9);
  EXPECT_NEAR(divided.bytes_per_frame, whole.bytes_per_frame, 1e-6);
  plan.overlap = true;
  const double overlapped = SimulateCost(kFourLayers, plan, HundredMegabytes()).frames_per_second;
  EXPECT_GT(overlapped, divided.frames_per_second);
  plan.divide = "";
  EXPECT_LT(overlapped, SimulateCost(kFourLayers, plan, HundredMegabytes()).frames_per_second);
}

TEST(CostModel, DividedStateNeedsAWorkersPartOfItsMemory) {
  CostPlan plan = With("ssgd", 8);
  plan.optimizer_values = 2;
  const double model = 4 * kFourLayers.weights();
  const double whole = SimulateCost(kFourLayers, plan, HundredMegabytes()).memory_bytes;
  plan.divide = "optimizer";
  const double state = SimulateCost(kFourLayers, plan, HundredMegabytes()).memory_bytes;
  EXPECT_NEAR(whole - state, 2 * model * 7 / 8, 1);
  plan.divide = "gradients";
  const double widest = 4.0 * 200 * 500;
  EXPECT_NEAR(state - SimulateCost(kFourLayers, plan, HundredMegabytes()).memory_bytes, model * 7 / 8 - widest, 1);
  plan.codec = "one-bit";
  EXPECT_THROW(SimulateCost(kFourLayers, plan, HundredMegabytes()), UsageError);
}

// Nobody waits for values; what they were asked for ahead misses twice as many pushes.
TEST(CostModel, ValuesAskedForAheadCostNoTimeAndMissMorePushes) {
  CostPlan plan = With("asgd", 4);
  plan.servers = 2;
  const CostResult waiting = SimulateCost(kFourLayers, plan, HundredMegabytes());
  plan.overlap_copies = true;
  const CostResult ahead = SimulateCost(kFourLayers, plan, HundredMegabytes());
  EXPECT_GT(ahead.frames_per_second, 1.05 * waiting.frames_per_second);
  EXPECT_NEAR(ahead.staleness, 6, 1.0);
  EXPECT_NEAR(waiting.staleness, 3, 1.0);
}

// As this program's replicas of divided models do.
TEST(ModelParallelCost, GroupsSumTheirGradientsInPieces) {
  const CostNetwork network({440, 1024, 1024, 3000});
  comm::ClusterOptions cluster;
  const auto speed = [&](const std::string& exchange) {
    CostPlan plan;
    plan.method = "model-parallel";
    plan.workers = 16;
    plan.group = 2;
    plan.exchange = exchange;
    return SimulateCost(network, plan, cluster).frames_per_second;
  };
  EXPECT_EQ(speed(""), speed("pieces"));
  EXPECT_GT(speed(""), speed("tree"));
}

// Pairs of devices, each on a node of its own, so that a message has its links to itself. Half of a layer's outputs
// goes to the other of the pair, and back comes half of the derivative, while the weights' gradient is computed; of the
// softmax two numbers per frame go round. At the end each device sums its half of the weights with those of the other
// pairs that hold the same, in pieces.
TEST(ModelParallelCost, AStepOfSeveralPairsTakesItsClosedForm) {
  const std::vector<double> dims = {100, 200, 200, 200, 500};
  const double frames = 256;
  const auto product = [&](size_t layer) { return 2 * dims[layer] * dims[layer + 1] * frames / 2 / 10e9; };
  const auto half_of = [&](double values) { return 4 * values * frames / 2; };
  const auto message = [&](double bytes) { return kSecondsOnItsWay + bytes / kBytesPerSecond; };
  const size_t layers = dims.size() - 1;
  double pass = 0, sent = 0, weights = 0;
  for (size_t i = 0; i < layers; ++i) {
    const double outputs = i + 1 < layers ? half_of(dims[i + 1]) : 8 * frames;
    pass += product(i) + message(outputs);
    sent += outputs;
    weights += dims[i] * dims[i + 1];
    if (i == 0) {
      pass += product(i);
    } else {
      pass += product(i) + std::max(product(i), message(half_of(dims[i])));
      sent += half_of(dims[i]);
    }
  }
  for (const int pairs : {2, 4}) {
    CostPlan plan = With("model-parallel", 2 * pairs);
    plan.group = 2;
    const double others = (pairs - 1.0) / pairs * 4 * weights / 2;  // bytes
    const CostResult r = SimulateCost(kFourLayers, plan, HundredMegabytes());
    EXPECT_NEAR(pairs * frames / r.frames_per_second, pass + 2 * message(others), 1e-9) << pairs;
    EXPECT_NEAR(r.bytes_per_frame, 2 * (sent + 2 * others) / frames, 1e-6) << pairs;
  }
}

}  // namespace
}  // namespace antiphon::plan
