// Sums in pieces have the tree's bits wherever the ranks stand, and cross the network as often as they must.
#include "comm/long_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "base/random.h"
#include "comm/simulated_world.h"
#include "comm/thread_world.h"

namespace antiphon::comm {
namespace {

constexpr int kTag = 3;

// Counts what goes to other nodes.
class CountingCarrier : public SumCarrier {
 public:
  CountingCarrier(Communicator& comm, const SumPlan& plan, size_t& between)
      : comm_(comm), plan_(plan), between_(between) {}
  int position() const override { return comm_.rank(); }
  void Send(int to, std::span<const std::byte> bytes) override {
    if (plan_.node_of(to) != plan_.node_of(comm_.rank())) between_ += bytes.size();
    comm_.Send(to, kTag, bytes);
  }
  void SendAway(int to, std::vector<std::byte>& bytes) override { Send(to, bytes); }
  std::vector<std::byte> Receive(int from, size_t size) override {
    Message message = comm_.Receive(from, kTag);
    EXPECT_EQ(message.bytes.size(), size);
    return std::move(message.bytes);
  }
  void Handled(Handling, size_t) override {}

 private:
  Communicator& comm_;
  const SumPlan& plan_;
  size_t& between_;
};

template <class T>
std::vector<T> ValuesOf(int rank, size_t size) {
  std::vector<T> values(size);
  for (size_t i = 0; i < size; ++i) values[i] = static_cast<T>(std::sin(1 + 3.7 * rank + 0.9 * static_cast<double>(i)));
  return values;
}

template <class T>
std::vector<T> SumByTree(size_t ranks, size_t size) {
  std::vector<std::vector<T>> parts;
  for (size_t r = 0; r < ranks; ++r) parts.push_back(ValuesOf<T>(static_cast<int>(r), size));
  for (size_t d = 1; d < ranks; d *= 2) {
    for (size_t r = 0; r + d < ranks; r += 2 * d) {
      for (size_t i = 0; i < size; ++i) parts[r][i] += parts[r + d][i];
    }
  }
  return parts[0];
}

// Bytes that went from node to node.
template <class T>
size_t CheckSum(const std::vector<int>& nodes, size_t size) {
  const SumPlan plan(nodes);
  const std::vector<T> expected = SumByTree<T>(nodes.size(), size);
  std::vector<size_t> between(nodes.size(), 0);
  RunRanks(static_cast<int>(nodes.size()), [&](Communicator& comm) {
    CountingCarrier carrier(comm, plan, between[static_cast<size_t>(comm.rank())]);
    for (int again = 0; again < 2; ++again) {
      std::vector<T> values = ValuesOf<T>(comm.rank(), size);
      SumInPieces(carrier, plan, values);
      EXPECT_EQ(values, expected) << "rank " << comm.rank();
    }
  });
  return std::accumulate(between.begin(), between.end(), size_t{0}) / 2;
}

std::vector<int> EqualNodes(int nodes, int ranks_per_node) {
  std::vector<int> places;
  for (int r = 0; r < nodes * ranks_per_node; ++r) places.push_back(r / ranks_per_node);
  return places;
}

TEST(SumInPieces, HasTheBitsOfTheTreeWhereverRanksStand) {
  Rng rng(5);
  for (int trial = 0; trial < 60; ++trial) {
    const auto ranks = static_cast<size_t>(1 + rng.Below(9));
    const auto places = static_cast<uint32_t>(1 + rng.Below(4));
    std::vector<int> nodes(ranks);
    for (int& node : nodes) node = static_cast<int>(rng.Below(places));
    const auto size = static_cast<size_t>(rng.Below(400));
    CheckSum<float>(nodes, size);
    CheckSum<double>(nodes, size);
  }
}

TEST(SumInPieces, ANodesRanksCrossTheNetworkOnce) {
  constexpr size_t kSize = 960;
  for (const int ranks_per_node : {1, 2, 4}) {
    for (const int nodes : {2, 3, 4}) {
      EXPECT_EQ(CheckSum<float>(EqualNodes(nodes, ranks_per_node), kSize),
                2 * static_cast<size_t>(nodes - 1) * kSize * sizeof(float))
          << nodes << " nodes of " << ranks_per_node;
    }
  }
  // Ranks 0 1 2 | 3 4 5: 0 + 1 and 4 + 5 are added inside, 2 and 3 belong to both halves.
  EXPECT_EQ(CheckSum<float>(EqualNodes(2, 3), kSize), (2 + 1) * kSize * sizeof(float));
}

TEST(BroadcastInPieces, ReachesEveryRankFromEveryRoot) {
  for (const std::vector<int>& nodes : {EqualNodes(2, 1), EqualNodes(4, 2), std::vector<int>{0, 1, 0, 2, 2, 1, 2}}) {
    const SumPlan plan(nodes);
    for (int root = 0; root < static_cast<int>(nodes.size()); ++root) {
      const std::vector<float> expected = ValuesOf<float>(root, 1001);
      size_t between = 0;
      RunRanks(static_cast<int>(nodes.size()), [&](Communicator& comm) {
        size_t ignored = 0;
        CountingCarrier carrier(comm, plan, comm.rank() == root ? between : ignored);
        std::vector<float> values = ValuesOf<float>(comm.rank(), 1001);
        BroadcastInPieces(carrier, plan, root, std::as_writable_bytes(std::span(values)));
        EXPECT_EQ(values, expected) << "rank " << comm.rank() << ", root " << root;
      });
      EXPECT_EQ(between, 1001 * sizeof(float)) << "the root sends its values once";
    }
  }
}

// On nodes that are joined by slow links alone, four nodes take 2 · 3/4 of the values each way; ranks are free.
TEST(SumInPieces, TakesTheTimeOfTheNetworkOnce) {
  constexpr size_t kValues = 1 << 18;
  ClusterOptions cluster;
  cluster.links.ranks_per_node = 2;
  cluster.links.message_us = 0;
  cluster.links.inside.latency_us = 0;
  cluster.links.inside.bandwidth_mb_s = 1e9;
  cluster.links.between.latency_us = 0;
  cluster.links.between.bandwidth_mb_s = 10;
  const SimulationReport report = RunSimulated(8, cluster, [&](Communicator& comm) {
    std::vector<float> values = ValuesOf<float>(comm.rank(), kValues);
    comm.AllReduce(values);
    EXPECT_EQ(values, SumByTree<float>(8, kValues));
  });
  const double network = 2 * 0.75 * kValues * sizeof(float) / 10e6;
  EXPECT_NEAR(report.seconds(), network, 0.1 * network);
}

}  // namespace
}  // namespace antiphon::comm
