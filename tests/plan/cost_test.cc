// The cost model against closed forms, brute force and the simulated world.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "comm/cost_world.h"
#include "comm/simulated_world.h"
#include "plan/cost_model.h"
#include "plan/pipeline_split.h"
#include "plan/schedules.h"

namespace antiphon::plan {
namespace {

constexpr double kLatency = 50e-6;
constexpr auto kTree = Exchange::kTree;
constexpr auto kRing = Exchange::kRing;
constexpr auto kTwoStage = Exchange::kTwoStage;
constexpr double kBandwidth = 100e6;

comm::ClusterOptions PlainCluster() {
  comm::ClusterOptions cluster;
  cluster.host.gflops = 10;
  cluster.links.message_us = 0;
  cluster.links.between.bandwidth_mb_s = 1e-6 * kBandwidth;
  cluster.links.between.latency_us = 1e6 * kLatency;
  return cluster;
}

comm::ClusterOptions FreeLinks() {
  comm::ClusterOptions cluster = PlainCluster();
  cluster.links.between.bandwidth_mb_s = 1e9;
  cluster.links.between.latency_us = 0;
  return cluster;
}

comm::Task OneAllReduce(comm::CostProcess& me, int size, double bytes, Exchange exchange, double& end) {
  const Group group{0, size, 1, 0};
  co_await AllReduce(me, group, me.rank(), bytes, exchange);
  end = std::max(end, me.now());
}

double AllReduceSeconds(int size, double bytes, Exchange exchange, const comm::ClusterOptions& cluster) {
  comm::CostWorld world(size, cluster);
  double end = 0;
  for (int r = 0; r < size; ++r) {
    comm::CostProcess& process = world.AddProcess(r);
    world.Start(process, OneAllReduce(process, size, bytes, exchange, end));
  }
  world.Run();
  return end;
}

double PiecesSeconds(int size, double bytes, const comm::ClusterOptions& cluster, bool closed_form) {
  comm::CostWorld world(size, cluster);
  double end = 0;
  const auto sum = [&](comm::CostProcess& me) -> comm::Task {
    const Group group{0, size, 1, 0};
    if (closed_form) {
      co_await SumInClosedForm(me, group, me.rank(), bytes);
    } else {
      co_await SumInPieces(me, group, me.rank(), bytes);
    }
    end = std::max(end, me.now());
  };
  for (int r = 0; r < size; ++r) {
    comm::CostProcess& process = world.AddProcess(r);
    world.Start(process, sum(process));
  }
  world.Run();
  return end;
}

// The same messages as comm/long_sum.h, on the same links.
TEST(CostWorld, SumsInPiecesTakeTheTimeOfTheProgramsOwn) {
  for (const int ranks_per_node : {1, 2, 3}) {
    comm::ClusterOptions cluster = PlainCluster();
    cluster.links.ranks_per_node = ranks_per_node;
    cluster.host.add_gb_s = 5;
    cluster.host.copy_gb_s = 8;
    cluster.host.send_gb_s = 4;
    for (const int size : {2, 6, 8}) {
      constexpr size_t kValues = 240'000;
      const double real = comm::RunSimulated(size, cluster, [](comm::Communicator& comm) {
                            std::vector<float> values(kValues, 1.0f);
                            comm.AllReduce(values);
                          }).seconds();
      EXPECT_NEAR(PiecesSeconds(size, 4.0 * kValues, cluster, false), real, 1e-3 * real)
          << size << " ranks, " << ranks_per_node << " per node";
      EXPECT_NEAR(PiecesSeconds(size, 4.0 * kValues, cluster, true), real, 0.2 * real)
          << size << " ranks, " << ranks_per_node << " per node";
    }
  }
}

double BroadcastSeconds(int size, double bytes, const comm::ClusterOptions& cluster, bool closed_form,
                        double* sent = nullptr) {
  comm::CostWorld world(size, cluster);
  double end = 0;
  const auto broadcast = [&](comm::CostProcess& me) -> comm::Task {
    const Group group{0, size, 1, 0};
    if (closed_form) {
      co_await BroadcastInClosedForm(me, group, me.rank(), bytes);
    } else {
      co_await BroadcastInPieces(me, group, me.rank(), bytes);
    }
    end = std::max(end, me.now());
  };
  for (int r = 0; r < size; ++r) {
    comm::CostProcess& process = world.AddProcess(r);
    world.Start(process, broadcast(process));
  }
  world.Run();
  if (sent != nullptr) *sent = world.bytes_sent();
  return end;
}

// Message by message as the program sends them, and in closed form.
TEST(CostWorld, BroadcastsInPiecesTakeTheTimeOfTheProgramsOwn) {
  for (const int ranks_per_node : {1, 2, 3}) {
    comm::ClusterOptions cluster = PlainCluster();
    cluster.links.ranks_per_node = ranks_per_node;
    cluster.host.copy_gb_s = 8;
    cluster.host.send_gb_s = 4;
    for (const int size : {6, 8, 24, 64, 192}) {
      constexpr size_t kValues = 240'000;
      const double messages = BroadcastSeconds(size, 4.0 * kValues, cluster, false);
      if (size <= 8) {
        const double real = comm::RunSimulated(size, cluster, [](comm::Communicator& comm) {
                              std::vector<float> values(kValues, 1.0f);
                              comm.Broadcast(0, values);
                            }).seconds();
        EXPECT_NEAR(messages, real, 1e-3 * real) << size << " ranks, " << ranks_per_node << " per node";
        continue;  // few nodes are in each other's way
      }
      double sent = 0, sent_in_messages = 0;
      BroadcastSeconds(size, 4.0 * kValues, cluster, false, &sent_in_messages);
      EXPECT_NEAR(BroadcastSeconds(size, 4.0 * kValues, cluster, true, &sent), messages, 0.1 * messages)
          << size << " ranks, " << ranks_per_node << " per node";
      EXPECT_NEAR(sent, sent_in_messages, 1e-6 * sent) << size << " ranks, " << ranks_per_node << " per node";
    }
  }
}

TEST(CostWorld, TreeAllReduceTakesTwiceItsDepth) {
  const double message = kLatency + 4e4 / kBandwidth;
  EXPECT_NEAR(AllReduceSeconds(2, 4e4, kTree, PlainCluster()), 2 * message, 1e-12);
  EXPECT_NEAR(AllReduceSeconds(8, 4e4, kTree, PlainCluster()), 6 * message, 1e-12);
  EXPECT_NEAR(AllReduceSeconds(1024, 4e4, kTree, PlainCluster()), 20 * message, 1e-9);
}

TEST(CostWorld, RingAndTwoStageAllReduceTakeTheirClosedForms) {
  for (const int n : {2, 3, 8, 32}) {
    const double part = 4e5 / n / kBandwidth;
    EXPECT_NEAR(AllReduceSeconds(n, 4e5, kRing, PlainCluster()), 2 * (n - 1) * (kLatency + part), 1e-9) << n;
    EXPECT_NEAR(AllReduceSeconds(n, 4e5, kTwoStage, PlainCluster()), 2 * (kLatency + (n - 1) * part), 1e-9) << n;
  }
}

TEST(CostWorld, LargeRingsTakeTheClosedFormOfSmallOnesAfterABarrier) {
  const int n = 256;
  const double part = 4e6 / n / kBandwidth;
  const double barrier = 2 * 8 * kLatency;
  EXPECT_NEAR(AllReduceSeconds(n, 4e6, kRing, PlainCluster()), barrier + 2 * (n - 1) * (kLatency + part), 1e-9);
  EXPECT_NEAR(AllReduceSeconds(n, 4e6, kTwoStage, PlainCluster()), barrier + 2 * (kLatency + (n - 1) * part), 1e-9);
}

TEST(CostWorld, AgreesWithTheSimulatedWorldThatReallySends) {
  comm::ClusterOptions cluster = PlainCluster();
  cluster.links.message_us = 3;
  cluster.links.ranks_per_node = 2;
  cluster.host.send_gb_s = 0.2;
  cluster.host.copy_gb_s = 0.3;
  cluster.host.add_gb_s = 0.1;
  for (const int n : {2, 3, 6, 7}) {
    const auto report = comm::RunSimulated(n, cluster, [](comm::Communicator& comm) {
      std::vector<float> values(10000, 1.0f);
      comm.AllReduce(values);
    });
    EXPECT_NEAR(AllReduceSeconds(n, 40000, kTree, cluster), report.seconds(), 1e-12) << n;
  }
}

comm::Task WaitsForEver(comm::CostProcess& me) { co_await me.Receive(0, 9); }

TEST(CostWorld, TellsOfProcessesThatWaitForEver) {
  comm::CostWorld world(1, PlainCluster());
  comm::CostProcess& process = world.AddProcess(0);
  world.Start(process, WaitsForEver(process));
  EXPECT_THROW(world.Run(), InternalError);
}

const CostNetwork kNetwork({100, 200, 200, 200, 500});

CostPlan PlanOf(const std::string& method, int workers) {
  CostPlan plan;
  plan.method = method;
  plan.workers = workers;
  return plan;
}

TEST(CostModel, OneWorkerGoesAtTheSpeedOfTheDevice) {
  EXPECT_EQ(kNetwork.weights(), 100 * 200 + 2 * 200 * 200 + 200 * 500);
  EXPECT_EQ(kNetwork.flops(), 6 * kNetwork.weights() - 2 * 100 * 200);
  for (const char* method : {"ssgd", "averaging", "bmuf", "pipeline"}) {
    EXPECT_NEAR(SimulateCost(kNetwork, PlanOf(method, 1), PlainCluster()).frames_per_second, 10e9 / kNetwork.flops(),
                1e-3)
        << method;
  }
}

TEST(CostModel, FreeLinksGiveFullSpeed) {
  for (const char* method : {"ssgd", "averaging", "bmuf", "asgd", "easgd-async"}) {
    CostPlan plan = PlanOf(method, 8);
    plan.servers = 4;
    EXPECT_NEAR(SimulateCost(kNetwork, plan, FreeLinks()).speedup, 8, 1e-3) << method;
  }
}

// Devices of other nodes reach the model by rank 0's card, and the more of them the longer they wait.
TEST(CostModel, AHostIsNearItsOwnDevicesAlone) {
  const auto speedup = [](int workers, int ranks_per_node) {
    comm::ClusterOptions cluster = PlainCluster();
    cluster.links.ranks_per_node = ranks_per_node;
    return SimulateCost(kNetwork, PlanOf("host-master", workers), cluster).speedup;
  };
  EXPECT_NEAR(speedup(4, 0), 4, 0.05);
  EXPECT_LT(speedup(4, 1), 0.9 * speedup(4, 0));
  EXPECT_EQ(speedup(4, 4), speedup(4, 0));
  EXPECT_LT(speedup(8, 1) / 8, speedup(4, 1) / 4);
}

// They answer when a layer is through: waiting for all of them costs up to a layer's time.
TEST(CostModel, WorkersThatServeKeepOthersWaiting) {
  CostPlan plan = PlanOf("asgd", 8);
  const CostResult on_workers = SimulateCost(kNetwork, plan, FreeLinks());
  EXPECT_LT(on_workers.speedup, 7.5);
  EXPECT_GT(on_workers.speedup, 4);
  plan.accumulate = 8;
  EXPECT_GT(SimulateCost(kNetwork, plan, FreeLinks()).speedup, on_workers.speedup);
}

// Gradient, iterations and losses of the closed form.
TEST(CostModel, HessianFreeStepsTakeTheirProductsAndSums) {
  CostPlan plan = PlanOf("hessian-free", 1);
  plan.sync_period = 10;
  plan.cg_iterations = 7;
  const double forward = 2 * kNetwork.weights();
  const double product = kNetwork.flops() + 2 * forward - 2 * 100 * 200;
  const double flops = 256 * (10 * kNetwork.flops() + 7 * 4 * product + 6 * 4 * forward);
  EXPECT_NEAR(10 * 256 / SimulateCost(kNetwork, plan, PlainCluster()).frames_per_second, flops / 10e9, 1e-9);
  plan.workers = 2;
  const double values = kNetwork.weights();
  const auto send = [](double bytes) { return kLatency + bytes / kBandwidth; };
  // Both send half of a sum's values at once, and the sum of the other half back.
  const double sums =
      2 * 2 * send(4 * values) + 7 * (send(4 * values) + 2 * send(4 * values)) + 6 * (send(4 * values) + 2 * send(16));
  EXPECT_NEAR(2 * 10 * 256 / SimulateCost(kNetwork, plan, PlainCluster()).frames_per_second, flops / 10e9 + sums,
              14 * kLatency);  // what goes back and what is asked next travel together
}

TEST(CostModel, SynchronousStepWithoutOverlapTakesWorkPlusExchange) {
  CostPlan plan = PlanOf("ssgd", 8);
  plan.overlap = false;
  const double work = kNetwork.flops() * 256 / 10e9;
  const double exchange = 2 * (kLatency + 7.0 / 8 * 4 * kNetwork.weights() / kBandwidth);
  const CostResult r = SimulateCost(kNetwork, plan, PlainCluster());
  EXPECT_NEAR(8 * 256 / r.frames_per_second, work + exchange, 1e-9);
  EXPECT_NEAR(r.compute_share, work / (work + exchange), 1e-9);
  EXPECT_NEAR(r.bytes_per_frame, 8 * 2 * 7.0 / 8 * 4 * kNetwork.weights() / (8 * 256), 1e-6);
}

// Every worker's model goes out once but for its own part, and its part of the sum to all others.
TEST(CostModel, PeriodTakesWorkPlusSumInPieces) {
  CostPlan plan = PlanOf("bmuf", 8);
  plan.sync_period = 20;
  const double work = 20 * kNetwork.flops() * 256 / 10e9;
  const double exchange = 2 * (kLatency + 7.0 / 8 * 4 * kNetwork.weights() / kBandwidth);
  EXPECT_NEAR(8 * 20 * 256 / SimulateCost(kNetwork, plan, PlainCluster()).frames_per_second, work + exchange, 1e-9);
}

TEST(CostModel, PipelineTicksWithItsFullestStage) {
  for (const int devices : {2, 3, 4, 6}) {
    const CostPlan plan = PlanOf("pipeline", devices);
    const double load = LargestLoad(kNetwork, SplitFor(kNetwork, plan));
    EXPECT_NEAR(SimulateCost(kNetwork, plan, FreeLinks()).frames_per_second, 10e9 / load, 1e-3 * 10e9 / load)
        << devices;
  }
}

TEST(CostModel, EquallyFastWorkersAreOneUpdateEachBehindTheOthers) {
  for (const int workers : {2, 4, 8}) {
    CostPlan plan = PlanOf("asgd", workers);
    plan.servers = 1;
    EXPECT_NEAR(SimulateCost(kNetwork, plan, FreeLinks()).staleness, workers - 1, 0.2 * workers) << workers;
  }
}

TEST(CostModel, ModelParallelSharesWorkAndSumsGradientsOverGroups) {
  CostPlan plan = PlanOf("model-parallel", 8);
  plan.group = 4;
  EXPECT_NEAR(SimulateCost(kNetwork, plan, FreeLinks()).speedup, 8, 1e-3);
  EXPECT_LT(SimulateCost(kNetwork, plan, PlainCluster()).speedup, 8);
  // One replica: each hidden layer's outputs are gathered, its derivative's columns go to whom they belong; of the
  // softmax maxima and sums go round.
  plan = PlanOf("model-parallel", 4);
  plan.group = 4;
  double hidden = 0;
  for (size_t i = 0; i + 1 < kNetwork.layers.size(); ++i) hidden += kNetwork.layers[i].out_dim;
  const double others = 3;
  EXPECT_NEAR(SimulateCost(kNetwork, plan, PlainCluster()).bytes_per_frame, others * (2 * 4 * hidden + 4 * 8),
              1e-6 * hidden);
}

// Below, weights go round; above, outputs; of the highest below, both.
TEST(CostModel, DataParallelLayersBelowDividedOnes) {
  CostPlan plan = PlanOf("model-parallel", 8);
  plan.group = 4;
  plan.front_layers = 2;
  EXPECT_NEAR(SimulateCost(kNetwork, plan, FreeLinks()).speedup, 8, 1e-3);
  plan = PlanOf("model-parallel", 4);
  plan.group = 4;
  const auto bytes_with = [&](int front) {
    plan.front_layers = front;
    return SimulateCost(kNetwork, plan, PlainCluster()).bytes_per_frame;
  };
  const double others = 3;
  const size_t layers = kNetwork.layers.size();
  double least = 1e18;
  for (size_t front = 1; front < layers; ++front) {
    double values = 0;
    for (size_t i = 0; i < front; ++i) values += kNetwork.layers[i].weights / plan.minibatch;
    for (size_t i = front - 1; i + 1 < layers; ++i) values += kNetwork.layers[i].out_dim;
    const double expected = others * (2 * 4 * values + 4 * 8);
    EXPECT_NEAR(bytes_with(static_cast<int>(front)), expected, 1e-6 * expected) << front;
    least = std::min(least, expected);
  }
  EXPECT_NEAR(bytes_with(-1), std::min(least, bytes_with(0)), 1e-6 * least);
  EXPECT_THROW(bytes_with(static_cast<int>(layers)), UsageError);
}

// Hidden layers of fewer units than a minibatch has frames, under a wide output layer.
TEST(CostModel, NarrowLayersUnderWideOutputsSendLeastDataParallel) {
  const CostNetwork network({440, 512, 512, 512, 512, 9000});
  CostPlan plan = PlanOf("model-parallel", 4);
  plan.group = 4;
  const auto bytes_with = [&](const std::string& method, int minibatch, int front) {
    plan.method = method;
    plan.minibatch = minibatch;
    plan.front_layers = front;
    return SimulateCost(network, plan, PlainCluster()).bytes_per_frame;
  };
  EXPECT_EQ(bytes_with("model-parallel", 2048, -1), bytes_with("model-parallel", 2048, 4));
  EXPECT_LT(bytes_with("model-parallel", 2048, -1), 0.7 * bytes_with("model-parallel", 2048, 0));
  EXPECT_LT(bytes_with("model-parallel", 2048, -1), 0.6 * bytes_with("ssgd", 512, 0));
  EXPECT_EQ(bytes_with("model-parallel", 64, -1), bytes_with("model-parallel", 64, 0));
}

TEST(CostModel, ThousandsOfWorkersArePlayedThrough) {
  CostPlan plan = PlanOf("bmuf", 4096);
  plan.sync_period = 100;
  const CostResult r = SimulateCost(kNetwork, plan, PlainCluster());
  const double work = 100 * kNetwork.flops() * 256 / 10e9;
  // So many workers would have too small pieces: the model goes as a whole up and down a tree.
  const double exchange = 24 * (kLatency + 4 * kNetwork.weights() / kBandwidth);
  EXPECT_NEAR(4096 * 100 * 256 / r.frames_per_second, work + exchange, 1e-6);
  const CostResult ssgd = SimulateCost(kNetwork, PlanOf("ssgd", 2048), PlainCluster());
  EXPECT_GT(ssgd.frames_per_second, 0);
  EXPECT_NEAR(ssgd.bytes_per_frame, 2 * 4 * kNetwork.weights() / 256, 0.01 * 8 * kNetwork.weights() / 256);
}

TEST(CostModel, RepeatsItselfToTheBit) {
  comm::ClusterOptions cluster = PlainCluster();
  cluster.host.jitter = 0.2;
  cluster.host.memory_gb_s = 1;
  for (const std::string& method : CostPlan::CostMethods()) {
    const CostPlan plan = PlanOf(method, method == "serial" ? 1 : 4);
    const CostResult a = SimulateCost(kNetwork, plan, cluster);
    const CostResult b = SimulateCost(kNetwork, plan, cluster);
    EXPECT_EQ(a.frames_per_second, b.frames_per_second) << method;
    EXPECT_EQ(a.compute_share, b.compute_share) << method;
    EXPECT_GT(a.frames_per_second, 0) << method;
    EXPECT_LE(a.compute_share, 1 + 1e-9) << method;
  }
}

TEST(CostModel, WorseClustersAreNeverFaster) {
  for (const std::string& method : CostPlan::CostMethods()) {
    if (method == "serial") continue;
    const CostPlan plan = PlanOf(method, 4);
    const double plain = SimulateCost(kNetwork, plan, PlainCluster()).frames_per_second;
    double last = 0;
    for (const double mb_s : {1.0, 10.0, 100.0, 1000.0}) {
      comm::ClusterOptions cluster = PlainCluster();
      cluster.links.between.bandwidth_mb_s = mb_s;
      const double speed = SimulateCost(kNetwork, plan, cluster).frames_per_second;
      EXPECT_GE(speed, last * (1 - 1e-6)) << method << " at " << mb_s;
      last = speed;
    }
    comm::ClusterOptions straggling = PlainCluster();
    straggling.host.straggler_ranks = {1};
    EXPECT_LT(SimulateCost(kNetwork, plan, straggling).frames_per_second, plain) << method;
    comm::ClusterOptions slow = PlainCluster();
    slow.host.gflops /= 2;
    EXPECT_LT(SimulateCost(kNetwork, plan, slow).frames_per_second, plain) << method;
  }
}

TEST(CostModel, FewerBitsAreFasterOnASlowLinkAndTheCodecHasItsPrice) {
  CostPlan plan = PlanOf("ssgd", 4);
  plan.minibatch = 32;
  const double plain = SimulateCost(kNetwork, plan, PlainCluster()).frames_per_second;
  plan.bits_per_value = 1.1;
  const double one_bit = SimulateCost(kNetwork, plan, PlainCluster()).frames_per_second;
  EXPECT_GT(one_bit, 1.5 * plain);
  plan.codec_gb_s = 0.1;
  EXPECT_LT(SimulateCost(kNetwork, plan, PlainCluster()).frames_per_second, one_bit);
}

TEST(CostModel, RefusesWhatCannotBe) {
  EXPECT_THROW(SimulateCost(kNetwork, PlanOf("bmfu", 4), PlainCluster()), UsageError);
  EXPECT_THROW(SimulateCost(kNetwork, PlanOf("ssgd", 0), PlainCluster()), UsageError);
  EXPECT_THROW(SimulateCost(CostNetwork({100}), PlanOf("ssgd", 2), PlainCluster()), UsageError);
  CostPlan three = PlanOf("model-parallel", 3);
  EXPECT_THROW(SimulateCost(kNetwork, three, PlainCluster()), UsageError);
  CostPlan stages = PlanOf("pipeline", 3);
  stages.stage_layers = {2, 2};
  EXPECT_THROW(SimulateCost(kNetwork, stages, PlainCluster()), UsageError);
  stages.stage_layers = {2, 1, 2};
  EXPECT_THROW(SimulateCost(kNetwork, stages, PlainCluster()), UsageError);
  stages.stage_layers = {2, 2};
  stages.stripes = 2;
  EXPECT_THROW(SimulateCost(kNetwork, stages, PlainCluster()), UsageError);
  comm::ClusterOptions small = PlainCluster();
  small.host.memory_gb = 1e-4;
  EXPECT_THROW(SimulateCost(kNetwork, PlanOf("ssgd", 2), small), UsageError);
}

}  // namespace
}  // namespace antiphon::plan
