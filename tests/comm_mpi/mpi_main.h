// The main function of tests that mpirun starts.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <exception>
#include <memory>

#include "comm/process_group.h"

namespace antiphon::comm {

/// Runs all tests, with `group` joined meanwhile. Returns the exit status.
inline int RunTestsOverMpi(int argc, char** argv, ProcessGroup*& group) {
  testing::InitGoogleTest(&argc, argv);
  try {
    const auto joined = ProcessGroup::Join("test");
    if (joined->num_processes() < 2) {
      std::fprintf(stderr, "start this by mpirun with at least 2 processes\n");
      return 2;
    }
    group = joined.get();
    const int status = RUN_ALL_TESTS();
    // A world that ends well, so that MPI is left in the orderly way.
    joined->RunRanks(joined->num_processes(), [](Communicator& comm) { comm.Barrier(); });
    return status;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}

}  // namespace antiphon::comm
