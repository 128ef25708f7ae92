// The conformance suite over MPI; ctest starts it by mpirun with several numbers of processes, so that the same world
// sizes are spread in different ways.
#include <cstdio>
#include <exception>
#include <memory>

#include "comm/communicator_conformance.h"
#include "comm/process_group.h"

namespace antiphon::comm {
namespace {

ProcessGroup* group = nullptr;

void RunOverMpi(int size, const std::function<void(Communicator&)>& body) { group->RunRanks(size, body); }

INSTANTIATE_TEST_SUITE_P(Mpi, CommunicatorConformance, testing::ValuesIn(WorldsOf("mpi", &RunOverMpi, {5, 8})),
                         NameOfWorld);

}  // namespace
}  // namespace antiphon::comm

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  try {
    const auto joined = antiphon::comm::ProcessGroup::Join("test");
    if (joined->num_processes() < 2) {
      std::fprintf(stderr, "start this by mpirun with at least 2 processes\n");
      return 2;
    }
    antiphon::comm::group = joined.get();
    const int status = RUN_ALL_TESTS();
    // A world that ends well, so that MPI is left in the orderly way.
    joined->RunRanks(joined->num_processes(), [](antiphon::comm::Communicator& comm) { comm.Barrier(); });
    return status;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
