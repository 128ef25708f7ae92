// The conformance suite over MPI; ctest starts it by mpirun with several numbers of processes, so that the same world
// sizes are spread in different ways.
#include "comm/communicator_conformance.h"
#include "comm_mpi/mpi_main.h"

namespace antiphon::comm {
namespace {

ProcessGroup* group = nullptr;

void RunOverMpi(int size, const std::function<void(Communicator&)>& body) { group->RunRanks(size, body); }

INSTANTIATE_TEST_SUITE_P(Mpi, CommunicatorConformance, testing::ValuesIn(WorldsOf("mpi", &RunOverMpi, {5, 8})),
                         NameOfWorld);

}  // namespace
}  // namespace antiphon::comm

int main(int argc, char** argv) { return antiphon::comm::RunTestsOverMpi(argc, argv, antiphon::comm::group); }
