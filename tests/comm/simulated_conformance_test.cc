// The simulated cluster is a communicator as any other.
#include "comm/communicator_conformance.h"
#include "comm/simulated_world.h"

namespace antiphon::comm {
namespace {

void RunOnSimulatedCluster(int size, const std::function<void(Communicator&)>& body) {
  RunSimulated(size, ClusterOptions{}, body);
}

// Sums inside nodes first.
void RunOnNodesOfTwo(int size, const std::function<void(Communicator&)>& body) {
  ClusterOptions cluster;
  cluster.links.ranks_per_node = 2;
  RunSimulated(size, cluster, body);
}

void RunOnNodesOfThree(int size, const std::function<void(Communicator&)>& body) {
  ClusterOptions cluster;
  cluster.links.ranks_per_node = 3;
  RunSimulated(size, cluster, body);
}

INSTANTIATE_TEST_SUITE_P(NodesOfTwo, CommunicatorConformance,
                         testing::ValuesIn(WorldsOf("nodes_of_two", &RunOnNodesOfTwo, {4, 7, 8})), NameOfWorld);
INSTANTIATE_TEST_SUITE_P(NodesOfThree, CommunicatorConformance,
                         testing::ValuesIn(WorldsOf("nodes_of_three", &RunOnNodesOfThree, {6, 8})), NameOfWorld);
INSTANTIATE_TEST_SUITE_P(Simulated, CommunicatorConformance,
                         testing::ValuesIn(WorldsOf("simulated", &RunOnSimulatedCluster, {1, 2, 3, 5, 8})),
                         NameOfWorld);

}  // namespace
}  // namespace antiphon::comm
