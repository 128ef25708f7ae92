// Every strategy on simulated clusters: the clock hears of all its arithmetic, stragglers hold up whom they should, and
// a machine's failure reaches those who need it. And the cost-only mode beside it.
#include <gtest/gtest.h>

#include <algorithm>

#include "comm/simulated_world.h"
#include "parallel/small_learner.h"
#include "parallel/step_cost.h"
#include "plan/cost_model.h"

namespace antiphon::parallel {
namespace {

constexpr int64_t kMinibatchesOfRun = 24;
constexpr double kGflops = 1e-4;

std::string Toml(const std::string& method) {
  std::string toml = "method = \"" + method + "\"\n";
  if (method == "hessian-free") toml += "curvature-minibatches = 2\ncheck-minibatches = 2\ncg-iterations = 5\n";
  if (method == "asgd-groups") toml += "stripes = 2\n";
  if (method == "asgd") toml += "push-every = 1\n";
  if (method == "averaging" || method == "bmuf" || method == "easgd") toml += "sync-period = 2\n";
  return toml;
}

// Devices so slow that messages take no time beside them.
comm::ClusterOptions SlowDevices() {
  comm::ClusterOptions cluster;
  cluster.host.gflops = kGflops;
  return cluster;
}

comm::SimulationReport Train(const std::string& toml, int workers, const comm::ClusterOptions& cluster) {
  return comm::RunSimulated(workers, cluster, [&](comm::Communicator& comm) {
    Learner learner(toml, comm);
    learner.Train(0, kMinibatchesOfRun / workers, comm.rank(), workers);
    learner.End();
  });
}

double FlopsPerMinibatch() { return kFrames * StepCost(MakeNetwork()).total_flops(); }

double ComputeSeconds(const comm::SimulationReport& report) {
  double sum = 0;
  for (const comm::RankUsage& rank : report.ranks) sum += rank.compute_seconds;
  return sum;
}

TEST(SimulatedCluster, HearsOfTheArithmeticOfEveryStrategy) {
  const double products = kMinibatchesOfRun * FlopsPerMinibatch() / (1e9 * kGflops);
  for (const std::string& method : StrategyRegistry::Get().Names()) {
    const int workers = method == "serial" ? 1 : method == "asgd-groups" ? 4 : 2;
    const double counted = ComputeSeconds(Train(Toml(method), workers, SlowDevices()));
    if (method == "hessian-free") {
      // The gradient, and at least one product with the curvature.
      const double product = 2 * 2 * kFrames * StepCost(MakeNetwork()).curvature_flops() / (1e9 * kGflops);
      EXPECT_GT(counted, products + product);
    } else {
      // All ranks of a pipeline or of a replica work on the same minibatches.
      const double share = method == "pipeline" || method == "model-parallel" ? 1.0 / workers : 1.0;
      EXPECT_NEAR(counted, share * products, 1e-6 * products) << method;
    }
  }
}

TEST(SimulatedCluster, HearsOfDataParallelLayersOfEachRanksFrames) {
  const double products = kMinibatchesOfRun * FlopsPerMinibatch() / (1e9 * kGflops);
  const double counted = ComputeSeconds(Train(Toml("model-parallel") + "data-parallel-layers = 4\n", 2, SlowDevices()));
  EXPECT_NEAR(counted, products / 2, 1e-6 * products);
}

TEST(SimulatedCluster, HasACostOnlyScheduleForEveryStrategy) {
  const std::vector<std::string>& methods = plan::CostPlan::CostMethods();
  for (const std::string& method : StrategyRegistry::Get().Names()) {
    EXPECT_NE(std::find(methods.begin(), methods.end(), method), methods.end()) << method;
  }
}

comm::ClusterOptions WithStraggler(double factor) {
  comm::ClusterOptions cluster = SlowDevices();
  cluster.host.straggler_ranks = {1};
  cluster.host.straggler_factor = factor;
  return cluster;
}

// With one of four devices four times slower, whoever waits for it goes at its speed. The common pool of asynchronous
// SGD gives it less to do: 3.25 devices are left, less what the others wait for the part of the model that it serves.
TEST(SimulatedCluster, AStragglerHoldsUpSynchronousMethodsOnly) {
  const auto slowdown = [](const std::string& method) {
    return Train(Toml(method), 4, WithStraggler(4)).seconds() / Train(Toml(method), 4, SlowDevices()).seconds();
  };
  for (const char* method : {"ssgd", "averaging", "bmuf"}) EXPECT_NEAR(slowdown(method), 4, 0.4) << method;
  EXPECT_GT(slowdown("asgd"), 4 / 3.25);
  EXPECT_LT(slowdown("asgd"), 2.5);
}

TEST(CostModel, AStragglerHoldsUpSynchronousMethodsOnly) {
  const plan::CostNetwork network({100, 200, 200, 200, 500});
  const auto slowdown = [&](const char* method, int servers) {
    plan::CostPlan plan;
    plan.method = method;
    plan.workers = 4;
    plan.servers = servers;
    return plan::SimulateCost(network, plan, SlowDevices()).frames_per_second /
           plan::SimulateCost(network, plan, WithStraggler(4)).frames_per_second;
  };
  for (const char* method : {"ssgd", "bmuf", "easgd"}) EXPECT_NEAR(slowdown(method, 0), 4, 0.2) << method;
  EXPECT_NEAR(slowdown("easgd-async", 0), 4 / 3.25, 0.1);
  EXPECT_NEAR(slowdown("asgd", 4), 4 / 3.25, 0.1) << "servers of their own keep nobody waiting";
  EXPECT_LT(slowdown("asgd", 0), 2.5);
}

TEST(SimulatedCluster, JitterCostsLockstepMoreThanItsMean) {
  comm::ClusterOptions jittery = SlowDevices();
  jittery.host.jitter = 0.4;
  const double lockstep = Train(Toml("ssgd"), 4, jittery).seconds() / Train(Toml("ssgd"), 4, SlowDevices()).seconds();
  const double blocks = Train("method = \"averaging\"\nsync-period = 0\n", 4, jittery).seconds() /
                        Train("method = \"averaging\"\nsync-period = 0\n", 4, SlowDevices()).seconds();
  EXPECT_GT(lockstep, 1.1);
  EXPECT_LT(blocks, lockstep) << "without exchanges between, slow and fast pieces even out";
}

// Of the others, whoever needs the lost rank learns its number and the moment; nothing hangs.
TEST(SimulatedCluster, AFailingMachineEndsASynchronousRunWithItsName) {
  comm::ClusterOptions cluster = SlowDevices();
  cluster.host.failing_ranks = {1};
  cluster.host.failing_seconds = {0.1};
  for (const std::string method : {"ssgd", "averaging", "bmuf", "pipeline", "model-parallel", "hessian-free"}) {
    try {
      Train(Toml(method), 4, cluster);
      ADD_FAILURE() << method << " went on without rank 1";
    } catch (const PeerError& e) {
      const std::string message = e.what();
      EXPECT_NE(message.find("rank 1 is lost, its machine failed at 0.1 s"), std::string::npos)
          << method << ": " << message;
    }
  }
}

// The simulated world that trains and the cost-only schedule of the same run, on links that matter.
TEST(SimulatedCluster, CostOnlyModeAgreesWithTraining) {
  comm::ClusterOptions cluster;
  cluster.host.gflops = 0.02;
  cluster.host.send_gb_s = 0.01;
  cluster.host.copy_gb_s = 0.02;
  cluster.host.add_gb_s = 0.02;
  cluster.host.codecs.fp32 = {0.01, 0.02};
  cluster.links.message_us = 0;
  cluster.links.between.bandwidth_mb_s = 20;
  cluster.links.between.latency_us = 20;
  const plan::CostNetwork network({kFeatures, 9, 9, 9, kPdfs});
  for (const std::string method : {"ssgd", "averaging", "bmuf", "asgd"}) {
    const comm::SimulationReport report = Train(Toml(method), 4, cluster);
    plan::CostPlan plan;
    plan.method = method;
    plan.workers = 4;
    plan.minibatch = kFrames;
    plan.sync_period = 2;
    const double predicted = kMinibatchesOfRun * kFrames / plan::SimulateCost(network, plan, cluster).frames_per_second;
    // The run also begins and ends.
    EXPECT_NEAR(predicted / report.seconds(), 1, 0.35) << method;
  }
}

}  // namespace
}  // namespace antiphon::parallel
