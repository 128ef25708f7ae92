// Virtual time against closed forms, and that a simulation repeats itself whatever the machine does.
#include "comm/simulated_world.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/random.h"

namespace antiphon::comm {
namespace {

// Cards of 100 MB/s, latency 50 µs, no time for the sender.
ClusterOptions PlainCluster() {
  ClusterOptions cluster;
  cluster.host.gflops = 1;  // a second of reference time is a second
  cluster.links.message_us = 0;
  cluster.links.between.bandwidth_mb_s = 100;
  cluster.links.between.latency_us = 50;
  return cluster;
}

constexpr double kLatency = 50e-6;
constexpr double kPerFloat = 4 / 100e6;

TEST(SimulatedWorld, AMessageTakesLatencyPlusBytesOverBandwidth) {
  RunSimulated(2, PlainCluster(), [](Communicator& comm) {
    EXPECT_TRUE(comm.time_is_virtual());
    const std::vector<std::byte> bytes(1'000'000);
    if (comm.rank() == 0) {
      comm.Compute(2);
      comm.Send(1, 0, bytes);
      EXPECT_NEAR(comm.Now(), 2, 1e-12);
    } else {
      EXPECT_EQ(comm.Receive(0, 0).bytes.size(), bytes.size());
      EXPECT_NEAR(comm.Now(), 2 + kLatency + 1e-2, 1e-12);
    }
  });
}

TEST(SimulatedWorld, TreeAllReduceTakesTwiceTheDepthOfTheTree) {
  constexpr size_t kFloats = 10'000;
  const double message = kLatency + kPerFloat * kFloats;
  for (const auto& [world_size, depth] : {std::pair(2, 1), std::pair(4, 2), std::pair(8, 3)}) {
    const SimulationReport report = RunSimulated(world_size, PlainCluster(), [](Communicator& comm) {
      std::vector<float> values(kFloats, 1.0f);
      comm.AllReduce(values);
    });
    // Down the tree the root's messages queue at its card, but the longest path goes through its first one.
    EXPECT_NEAR(report.seconds(), 2 * depth * message, 1e-12);
    EXPECT_EQ(report.bytes_sent(), 2.0 * (world_size - 1) * 4 * kFloats);
  }
}

TEST(SimulatedWorld, SendingCopyingAndAddingTakeTheirRates) {
  ClusterOptions cluster = PlainCluster();
  cluster.host.send_gb_s = 0.5;
  cluster.host.copy_gb_s = 0.25;
  cluster.host.add_gb_s = 0.2;
  constexpr size_t kFloats = 100'000;
  constexpr double kBytes = 4.0 * kFloats;
  const double message = kBytes / 0.5e9 + kLatency + kPerFloat * kFloats;
  // Both send half, rank 1 puts its sum to its place; both send their sums, and copy the other's.
  EXPECT_NEAR(RunSimulated(2, cluster,
                           [](Communicator& comm) {
                             std::vector<float> values(kFloats, 1.0f);
                             comm.AllReduce(values);
                           })
                  .seconds(),
              message + kLatency + 0.5 * kBytes / 0.2e9 + kBytes / 0.25e9, 1e-9);
  EXPECT_NEAR(RunSimulated(2, cluster,
                           [](Communicator& comm) {
                             std::vector<float> values(kFloats, 1.0f);
                             comm.ReduceScatter(values);
                             comm.AllGatherParts(values);
                           })
                  .seconds(),
              message + kLatency + 0.5 * kBytes / 0.2e9 + kBytes / 0.25e9, 1e-9);
}

TEST(SimulatedWorld, AnySourceTakesTheEarliestArrivalInVirtualTime) {
  const auto order = [](const std::vector<double>& start) {
    std::vector<int> sources;
    RunSimulated(4, PlainCluster(), [&](Communicator& comm) {
      if (comm.rank() > 0) {
        comm.Compute(start[static_cast<size_t>(comm.rank())]);
        // Real time runs the other way round.
        std::this_thread::sleep_for(std::chrono::milliseconds(comm.rank() == 1 ? 5 : 0));
        comm.Send(0, 1, {});
      } else {
        for (int i = 0; i < 3; ++i) sources.push_back(comm.Receive(Communicator::kAnySource, 1).source);
      }
    });
    return sources;
  };
  EXPECT_EQ(order({0, 1, 2, 3}), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(order({0, 3, 1, 2}), (std::vector<int>{2, 3, 1}));
  EXPECT_EQ(order({0, 1, 1, 1}), (std::vector<int>{1, 2, 3}));
}

TEST(SimulatedWorld, AccumulationsTakeEffectWhenTheyArrive) {
  RunSimulated(2, PlainCluster(), [](Communicator& comm) {
    std::vector<float> memory(1, 0.0f);
    comm.OpenWindow(0, memory);
    const double begin = comm.Now();
    if (comm.rank() == 1) {
      comm.Compute(1);
      const float one = 1;
      comm.Accumulate(0, 0, 0, 2.0f, {&one, 1});
    } else {
      comm.Compute(1);
      EXPECT_EQ(memory[0], 0.0f);
      comm.Compute(1);
      EXPECT_EQ(memory[0], 2.0f);
    }
    comm.CloseWindow(0);
    EXPECT_GT(comm.Now(), begin);
  });
}

// Ranks of unequal speed that compute, push, pull, poll and ask anybody: everything whose order matters.
std::vector<double> Trace(const ClusterOptions& cluster, int world_size, std::atomic<int>* delays) {
  std::vector<double> trace;
  RunSimulated(world_size, cluster, [&](Communicator& comm) {
    std::vector<float> memory(16, 1.0f);
    comm.OpenWindow(0, memory);
    std::vector<float> copy(16);
    for (int step = 0; step < 6; ++step) {
      comm.Compute(0.01 * (1 + comm.rank()));
      if (delays != nullptr) std::this_thread::sleep_for(std::chrono::microseconds((*delays)++ * 37 % 500));
      comm.Get(0, 0, 0, copy);
      for (float& v : copy) v = std::sin(v + static_cast<float>(comm.rank()));
      comm.Accumulate(0, 0, 0, 0.1f, copy);
      comm.Send((comm.rank() + step) % comm.world_size(), 5, std::as_bytes(std::span(copy)));
      comm.Poll(Communicator::kAnySource, 5);
    }
    comm.Barrier();
    std::vector<float> received;
    while (comm.Poll(Communicator::kAnySource, 5)) {
      const Message message = comm.Receive(Communicator::kAnySource, 5);
      received.push_back(static_cast<float>(message.source));
    }
    comm.CloseWindow(0);
    double sum = 0;
    for (size_t i = 0; i < received.size(); ++i) sum += received[i] * static_cast<double>(i + 1);
    const double mine[] = {comm.Now(), sum, memory[0], memory[15]};
    const auto all = comm.AllGather(std::as_bytes(std::span(mine)));
    if (comm.rank() == 0) {
      trace.resize(all.size() / sizeof(double));
      std::memcpy(trace.data(), all.data(), all.size());
    }
  });
  return trace;
}

TEST(SimulatedWorld, RepeatsItselfToTheBitWhateverTheMachineDoes) {
  ClusterOptions cluster = PlainCluster();
  cluster.host.jitter = 0.4;
  cluster.host.memory_gb_s = 0.001;
  cluster.links.message_us = 3;
  cluster.links.between.shared_mb_s = 60;
  const std::vector<double> first = Trace(cluster, 5, nullptr);
  ASSERT_EQ(first.size(), 20u);
  std::atomic<int> delays{1};
  EXPECT_EQ(Trace(cluster, 5, &delays), first);
  delays = 11;
  EXPECT_EQ(Trace(cluster, 5, &delays), first);
  cluster.host.seed = 2;
  EXPECT_NE(Trace(cluster, 5, nullptr), first);
}

TEST(SimulatedWorld, SlowDevicesAndSlowLinksNeverMakeARunShorter) {
  const auto seconds = [](const ClusterOptions& cluster) {
    return RunSimulated(6, cluster,
                        [](Communicator& comm) {
                          std::vector<float> values(1000, 1.0f);
                          for (int i = 0; i < 3; ++i) {
                            comm.Compute(0.001);
                            comm.AllReduce(values);
                          }
                        })
        .seconds();
  };
  const ClusterOptions plain = PlainCluster();
  ClusterOptions slow_device = plain;
  slow_device.host.straggler_ranks = {3};
  ClusterOptions slow_link = plain;
  slow_link.links.between.bandwidth_mb_s = 50;
  ClusterOptions shared = plain;
  shared.links.between.shared_mb_s = 100;
  ClusterOptions busy_sender = plain;
  busy_sender.links.message_us = 20;
  EXPECT_GT(seconds(slow_device), seconds(plain) + 0.0085);  // 0.009 less what it hides of the reduction
  EXPECT_GT(seconds(slow_link), seconds(plain));
  EXPECT_GT(seconds(shared), seconds(plain));
  EXPECT_GT(seconds(busy_sender), seconds(plain));
}

TEST(SimulatedWorld, TellsWhereTheTimeWent) {
  ClusterOptions cluster = PlainCluster();
  cluster.host.straggler_ranks = {1};
  cluster.host.straggler_factor = 5;
  const SimulationReport report = RunSimulated(2, cluster, [](Communicator& comm) {
    comm.Compute(1);
    comm.Barrier();
  });
  EXPECT_NEAR(report.ranks[0].compute_seconds, 1, 1e-9);
  EXPECT_NEAR(report.ranks[1].compute_seconds, 5, 1e-9);
  EXPECT_NEAR(report.ranks[0].waiting_seconds, 4, 1e-3);
  EXPECT_NEAR(report.ranks[0].compute_seconds + report.ranks[0].waiting_seconds, report.ranks[0].end_seconds, 1e-9);
  EXPECT_EQ(report.ranks[1].messages, 1);
}

TEST(SimulatedWorld, DeadlinesAreVirtualAndCostNoRealTime) {
  try {
    RunSimulated(3, PlainCluster(), [](Communicator& comm) {
      comm.SetStep(4);
      comm.set_deadline_seconds(1e6);
      if (comm.rank() == 2) comm.Receive(0, 7);
    });
    FAIL() << "expected PeerError";
  } catch (const PeerError& e) {
    EXPECT_STREQ(e.what(), "rank 2:\n  rank 2 of 3, receiving from rank 0, step 4: no message within 1000000 s");
  }
}

TEST(SimulatedWorld, ALostRankEndsAloneAndItsPeersLearnOfIt) {
  ClusterOptions cluster = PlainCluster();
  cluster.host.failing_ranks = {1};
  cluster.host.failing_seconds = {2.5};
  std::atomic<int> informed{0};
  const SimulationReport report = RunSimulated(3, cluster, [&](Communicator& comm) {
    if (comm.rank() == 1) {
      for (int i = 0; i < 10; ++i) comm.Compute(1);
      ADD_FAILURE() << "must be lost";
    }
    try {
      comm.Receive(1, 0);
    } catch (const PeerError& e) {
      EXPECT_NE(std::string(e.what()).find("rank 1 is lost, its machine failed at 2.5 s"), std::string::npos)
          << e.what();
      EXPECT_NEAR(comm.Now(), 2.5, 1e-9);
      ++informed;
    }
  });
  EXPECT_EQ(informed, 2);
  EXPECT_TRUE(report.ranks[1].lost);
  EXPECT_FALSE(report.ranks[0].lost);
  EXPECT_NEAR(report.ranks[1].end_seconds, 2.5, 1e-9);
}

TEST(SimulatedWorld, WhoToleratesLossesGoesOnWithTheOthers) {
  ClusterOptions cluster = PlainCluster();
  cluster.host.failing_ranks = {2};
  cluster.host.failing_seconds = {0.5};
  std::atomic<int> received{0};
  RunSimulated(3, cluster, [&](Communicator& comm) {
    comm.losses()->TolerateLosses(true);
    comm.Compute(comm.rank() == 1 ? 2 : 1);
    if (comm.rank() == 1) comm.Send(0, 0, {});
    if (comm.rank() != 0) return;
    comm.Send(2, 0, {});
    EXPECT_EQ(comm.losses()->LostRanks(), std::vector<int>{2});
    EXPECT_EQ(comm.Receive(Communicator::kAnySource, 0).source, 1);
    EXPECT_THROW(comm.Receive(2, 0), PeerLost);
    comm.losses()->TolerateLosses(false);
    EXPECT_THROW(comm.Receive(1, 0), PeerLost);
    ++received;
  });
  EXPECT_EQ(received, 1);
}

TEST(SimulatedWorld, AFailureOfAllIsAnError) {
  ClusterOptions cluster = PlainCluster();
  cluster.host.failing_ranks = {0};
  cluster.host.failing_seconds = {0.5};
  EXPECT_THROW(RunSimulated(1, cluster, [](Communicator& comm) { comm.Compute(1); }), PeerError);
}

TEST(SimulatedWorld, PollingWithoutEndReachesEveryMoment) {
  RunSimulated(2, PlainCluster(), [](Communicator& comm) {
    if (comm.rank() == 1) {
      comm.Compute(3);
      comm.Send(0, 0, {});
    } else {
      while (!comm.Poll(1, 0)) continue;
      EXPECT_NEAR(comm.Now(), 3 + kLatency, 2e-3);
    }
  });
}

}  // namespace
}  // namespace antiphon::comm
