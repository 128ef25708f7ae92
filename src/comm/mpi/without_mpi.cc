// Stands in for MPI in a build without it.
#include "base/error.h"
#include "comm/process_group.h"

namespace antiphon::comm {

std::string MpiLibrary() { return "this program was built without MPI; ranks are threads of one process"; }

std::unique_ptr<ProcessGroup> JoinMpi(std::string_view) {
  Throw<UsageError>(
      "this is one of {} processes that mpirun or srun started, but the program was built without MPI: install "
      "libopenmpi-dev (scripts/setup does) and build again, or start one process with parallel.workers threads",
      LaunchedProcesses());
}

}  // namespace antiphon::comm
