// The simulated cluster is a communicator as any other.
#include "comm/communicator_conformance.h"
#include "comm/simulated_world.h"

namespace antiphon::comm {
namespace {

void RunOnSimulatedCluster(int size, const std::function<void(Communicator&)>& body) {
  RunSimulated(size, ClusterOptions{}, body);
}

INSTANTIATE_TEST_SUITE_P(Simulated, CommunicatorConformance,
                         testing::ValuesIn(WorldsOf("simulated", &RunOnSimulatedCluster, {1, 2, 3, 5, 8})),
                         NameOfWorld);

}  // namespace
}  // namespace antiphon::comm
