// The cost model of divided optimisers and of values that are asked for ahead; and that simulating stops when asked.
#include <gtest/gtest.h>

#include "base/cancel.h"
#include "base/error.h"
#include "comm/cost_world.h"
#include "plan/cost_model.h"

namespace antiphon::plan {
namespace {

constexpr double kSecondsOnItsWay = 50e-6;
const CostNetwork kFourLayers({100, 200, 200, 200, 500});

comm::ClusterOptions HundredMegabytes() {
  comm::ClusterOptions cluster;
  cluster.host.gflops = 10;
  cluster.links.message_us = 0;
  cluster.links.between.bandwidth_mb_s = 100;
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

}  // namespace
}  // namespace antiphon::plan
