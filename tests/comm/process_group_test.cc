// How ranks are spread over processes.
#include "comm/process_group.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"

namespace antiphon::comm {
namespace {

TEST(ProcessGroup, RanksAreSpreadEvenlyAndInOrder) {
  for (int processes = 1; processes <= 7; ++processes) {
    for (int ranks = processes; ranks <= 40; ++ranks) {
      EXPECT_EQ(FirstRankOf(0, processes, ranks), 0);
      EXPECT_EQ(FirstRankOf(processes, processes, ranks), ranks);
      for (int p = 0; p < processes; ++p) {
        const int count = FirstRankOf(p + 1, processes, ranks) - FirstRankOf(p, processes, ranks);
        EXPECT_GE(count, ranks / processes);
        EXPECT_LE(count, (ranks + processes - 1) / processes);
      }
    }
  }
}

TEST(ProcessGroup, LaunchersAreKnownByWhatTheyLeaveInTheEnvironment) {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) ::unsetenv(variable);
  EXPECT_EQ(LaunchedProcesses(), 1);
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    ::setenv(variable, "6", 1);
    EXPECT_EQ(LaunchedProcesses(), 6) << variable;
    ::unsetenv(variable);
  }
}

TEST(ProcessGroup, OneProcessRunsAllRanks) {
  const auto group = ProcessGroup::Join("test");
  EXPECT_EQ(group->num_processes(), 1);
  int sum = 0;
  group->RunRanks(3, [&](Communicator& comm) {
    double ranks = comm.rank();
    comm.AllReduce(std::span<double>(&ranks, 1));
    if (comm.rank() == 0) sum = static_cast<int>(ranks);
  });
  EXPECT_EQ(sum, 3);
}

}  // namespace
}  // namespace antiphon::comm
