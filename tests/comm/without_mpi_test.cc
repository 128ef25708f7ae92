// What a program says that was built without MPI. Its functions bear other names here, beside those of the MPI that
// this one may have.
#include "comm/process_group.h"

#define MpiLibrary LibraryWithoutMpi
#define JoinMpi JoinWithoutMpi
namespace antiphon::comm {
std::string LibraryWithoutMpi();
std::unique_ptr<ProcessGroup> JoinWithoutMpi(std::string_view version);
}  // namespace antiphon::comm
#include "comm/mpi/without_mpi.cc"
#undef MpiLibrary
#undef JoinMpi

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"

namespace antiphon::comm {
namespace {

TEST(WithoutMpi, IsSaid) { EXPECT_NE(LibraryWithoutMpi().find("built without MPI"), std::string::npos); }

TEST(WithoutMpi, OneOfSeveralProcessesIsRefused) {
  ::setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  try {
    JoinWithoutMpi("test");
    ADD_FAILURE() << "expected UsageError";
  } catch (const UsageError& e) {
    const std::string message = e.what();
    for (const char* part : {"one of 4 processes", "built without MPI", "libopenmpi-dev", "parallel.workers threads"}) {
      EXPECT_NE(message.find(part), std::string::npos) << part << ": " << message;
    }
  }
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
}

}  // namespace
}  // namespace antiphon::comm
