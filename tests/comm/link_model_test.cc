// Times on idle and busy links against closed forms.
#include "comm/link_model.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "comm/host_model.h"

namespace antiphon::comm {
namespace {

LinkOptions Star(double bridge_mb_s = 0) {
  LinkOptions o;
  o.ranks_per_node = 0;
  o.inside.latency_us = 10;
  o.inside.bandwidth_mb_s = 1000;
  o.inside.bridge_mb_s = bridge_mb_s;
  return o;
}

LinkOptions Ethernet(double shared_mb_s = 0) {
  LinkOptions o;
  o.between.latency_us = 50;
  o.between.bandwidth_mb_s = 100;
  o.between.shared_mb_s = shared_mb_s;
  return o;
}

TEST(LinkModel, IdleTimeIsLatencyPlusBytesOverTheLeastBandwidth) {
  EXPECT_NEAR(LinkModel(Star(), 4).IdleSeconds(0, 3, 1e6), 10e-6 + 1e-3, 1e-12);
  EXPECT_NEAR(LinkModel(Star(500), 4).IdleSeconds(0, 3, 1e6), 10e-6 + 2e-3, 1e-12);
  EXPECT_NEAR(LinkModel(Ethernet(), 4).IdleSeconds(0, 3, 1e6), 50e-6 + 1e-2, 1e-12);
  EXPECT_EQ(LinkModel(Ethernet(), 4).IdleSeconds(2, 2, 1e6), 0);
  LinkOptions nodes = Ethernet();
  nodes.ranks_per_node = 2;
  nodes.inside = Star().inside;
  EXPECT_NEAR(LinkModel(nodes, 4).IdleSeconds(0, 1, 1e6), 10e-6 + 1e-3, 1e-12);
  EXPECT_NEAR(LinkModel(nodes, 4).IdleSeconds(0, 2, 1e6), 10e-6 + 50e-6 + 1e-2, 1e-12);
}

TEST(LinkModel, AnIdleMessageArrivesAfterTheIdleTime) {
  for (const LinkOptions& options : {Star(), Star(400), Ethernet(), Ethernet(30)}) {
    LinkModel links(options, 4);
    EXPECT_NEAR(links.Deliver(1, 2, 12345, 7.0), 7.0 + links.IdleSeconds(1, 2, 12345), 1e-12);
  }
}

TEST(LinkModel, ManyToOneTakesTheReceiversLinkInTurn) {
  LinkModel links(Ethernet(), 5);
  for (int r = 1; r < 5; ++r) EXPECT_NEAR(links.Deliver(r, 0, 1e6, 0), 50e-6 + 1e-2 * r, 1e-12);
}

TEST(LinkModel, SeparatePairsShareOnlyWhatTheyShare) {
  LinkModel switched(Ethernet(), 4);
  EXPECT_NEAR(switched.Deliver(0, 1, 1e6, 0), switched.Deliver(2, 3, 1e6, 0), 1e-12);
  LinkModel segment(Ethernet(100), 4);
  EXPECT_NEAR(segment.Deliver(0, 1, 1e6, 0), 50e-6 + 1e-2, 1e-12);
  EXPECT_NEAR(segment.Deliver(2, 3, 1e6, 0), 50e-6 + 2e-2, 1e-12);
}

TEST(LinkModel, ARingTakesTheShorterWayRound) {
  LinkOptions options = Star();
  options.inside.topology = "nvlink-ring";
  const LinkModel links(options, 8);
  EXPECT_NEAR(links.IdleSeconds(0, 7, 1e6), 10e-6 + 1e-3, 1e-12);
  EXPECT_NEAR(links.IdleSeconds(0, 3, 1e6), 30e-6 + 1e-3, 1e-12);
  EXPECT_NEAR(links.IdleSeconds(6, 1, 1e6), 30e-6 + 1e-3, 1e-12);
}

TEST(LinkModel, AFatTreesUplinksCarryLeafNodesOverOversubscriptionCards) {
  LinkOptions options = Ethernet();
  options.between.topology = "fat-tree";
  options.between.leaf_nodes = 4;
  options.between.oversubscription = 4;  // one card's worth
  LinkModel links(options, 8);
  EXPECT_NEAR(links.Deliver(0, 4, 1e6, 0), 50e-6 + 1e-2, 1e-12);
  EXPECT_NEAR(links.Deliver(1, 5, 1e6, 0), 50e-6 + 2e-2, 1e-12);
  EXPECT_NEAR(links.Deliver(2, 3, 1e6, 0), 50e-6 + 1e-2, 1e-12);
}

TEST(LinkModel, AFreeLinkDoesNotWaitForAMessageThatIsStillFar) {
  LinkModel links(Ethernet(), 3);
  links.Deliver(0, 2, 1e6, 0);  // keeps the sender's card for 10 ms
  EXPECT_NEAR(links.Deliver(0, 1, 1e6, 0), 50e-6 + 2e-2, 1e-12);
  EXPECT_NEAR(links.Deliver(2, 1, 1e6, 0), 50e-6 + 1e-2, 1e-12);  // goes before what reaches rank 1 after 10 ms
}

TEST(LinkModel, KeepsTheOrderOfEachPair) {
  LinkOptions options = Ethernet(80);
  options.ranks_per_node = 2;
  LinkModel links(options, 6);
  double last = 0;
  for (int i = 0; i < 50; ++i) {
    links.Deliver(i % 6, (i + 3) % 6, 1e5, 1e-4 * i);
    const double arrival = links.Deliver(0, 4, i % 7 == 0 ? 1e6 : 10, 1e-4 * i);
    EXPECT_GE(arrival, last);
    last = arrival;
  }
}

TEST(LinkModel, BothWaysAtOnceAreSlowerWhereTheLinkIsNotQuiteDuplex) {
  for (const double duplex : {1.0, 0.8, 0.5}) {
    LinkOptions ethernet = Ethernet();
    ethernet.between.duplex = duplex;
    LinkModel alone(ethernet, 2);
    EXPECT_NEAR(alone.Deliver(0, 1, 1e6, 0), 50e-6 + 1e-2, 1e-12);
    LinkModel both(ethernet, 2);
    const double first = both.Deliver(0, 1, 1e6, 0);
    const double last = std::max(first, both.Deliver(1, 0, 1e6, 0));
    EXPECT_NEAR(last, 50e-6 + 1e-2 / duplex, 50e-6) << duplex;  // while one is under way alone it is not slower
    LinkOptions star = Star();
    star.inside.duplex = duplex;
    LinkModel lanes(star, 2);
    lanes.Deliver(0, 1, 1e6, 0);
    EXPECT_NEAR(lanes.Deliver(1, 0, 1e6, 0), 10e-6 + 1e-3 / duplex, 10e-6) << duplex;
  }
}

TEST(LinkModel, RefusesLimitsThatTheTopologyDoesNotHave) {
  LinkOptions ring = Star(100);
  ring.inside.topology = "nvlink-ring";
  EXPECT_THROW(LinkModel(ring, 4), UsageError);
  LinkOptions tree = Ethernet(100);
  tree.between.topology = "fat-tree";
  EXPECT_THROW(LinkModel(tree, 4), UsageError);
}

TEST(HostModel, WorkTakesLaunchPlusOperationsOverSpeed) {
  HostOptions options;
  options.gflops = 100;
  options.launch_us = 10;
  options.straggler_ranks = {1};
  options.straggler_factor = 3;
  options.half_speed_frames = 64;
  HostModel hosts(options, 2);
  EXPECT_NEAR(hosts.ComputeSeconds(0, 1e9), 0.01001, 1e-12);
  EXPECT_NEAR(hosts.ComputeSeconds(1, 1e9), 0.03003, 1e-12);
  EXPECT_NEAR(hosts.ComputeSeconds(0, 1e9, 64), 0.02001, 1e-12);
}

TEST(HostModel, HandlingTakesItsRate) {
  HostOptions options;
  options.copy_gb_s = 2;
  options.add_gb_s = 4;
  options.send_gb_s = 5;
  options.codecs.one_bit = {10, 20};
  options.straggler_ranks = {1};
  options.straggler_factor = 3;
  const HostModel hosts(options, 2);
  EXPECT_NEAR(hosts.HandlingSeconds(0, Handling::kCopy, 1e9, ""), 0.5, 1e-12);
  EXPECT_NEAR(hosts.HandlingSeconds(0, Handling::kAdd, 1e9, ""), 0.25, 1e-12);
  EXPECT_NEAR(hosts.HandlingSeconds(1, Handling::kAdd, 1e9, ""), 0.75, 1e-12);
  EXPECT_NEAR(hosts.HandlingSeconds(0, Handling::kEncode, 1e9, "one-bit"), 0.1, 1e-12);
  EXPECT_NEAR(hosts.HandlingSeconds(0, Handling::kDecode, 1e9, "one-bit"), 0.05, 1e-12);
  EXPECT_EQ(hosts.HandlingSeconds(0, Handling::kDecode, 1e9, "bf16"), 0);
  EXPECT_NEAR(hosts.SendSeconds(0, 1e9), 0.2, 1e-12);
  EXPECT_EQ(HostModel(HostOptions(), 1).HandlingSeconds(0, Handling::kCopy, 1e9, ""), 0);
}

TEST(HostModel, JitterKeepsTheMeanAndDependsOnRankAndPlaceOnly) {
  HostOptions options;
  options.gflops = 1;
  options.jitter = 0.3;
  HostModel a(options, 2);
  HostModel b(options, 3);
  double sum = 0;
  for (int i = 0; i < 4000; ++i) {
    const double seconds = a.ComputeSeconds(0, 1e9);
    sum += seconds;
    b.ComputeSeconds(1, 1e9);
    EXPECT_EQ(seconds, b.ComputeSeconds(0, 1e9));
  }
  EXPECT_NEAR(sum / 4000, 1.0, 0.02);
}

TEST(HostModel, RefusesFailuresOfRanksThatDoNotExist) {
  HostOptions options;
  options.failing_ranks = {4};
  options.failing_seconds = {1};
  EXPECT_THROW(HostModel(options, 4), UsageError);
  options.failing_ranks = {3, 2};
  EXPECT_THROW(HostModel(options, 4), UsageError);
  options.failing_ranks = {3};
  EXPECT_EQ(HostModel(options, 4).FailureSeconds(3), 1);
  EXPECT_EQ(HostModel(options, 4).FailureSeconds(0), HostModel::kNever);
}

}  // namespace
}  // namespace antiphon::comm
