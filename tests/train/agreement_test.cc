// Ranks started for different experiments find out before the first step.
#include "train/agreement.h"

#include <gtest/gtest.h>

#include <atomic>

#include "comm/thread_world.h"

namespace antiphon::train {
namespace {

TEST(Agreement, PassesWhereAllAreTheSame) {
  comm::RunRanks(4, [](comm::Communicator& comm) { AgreeOnExperiment(comm, "seed = 1\nworkers = 4\n"); });
}

TEST(Agreement, EveryRankLearnsWhoDiffersAndWhere) {
  std::atomic<int> told{0};
  EXPECT_THROW(comm::RunRanks(4,
                              [&](comm::Communicator& comm) {
                                const bool other = comm.rank() == 2;
                                try {
                                  AgreeOnExperiment(comm, other ? "seed = 1\nrate = 0.2\n" : "seed = 1\nrate = 0.1\n");
                                } catch (const UsageError& e) {
                                  const std::string text = e.what();
                                  EXPECT_NE(text.find("rank 2 on "), std::string::npos) << text;
                                  EXPECT_NE(text.find("has 'rate = 0.2', rank 0 'rate = 0.1'"), std::string::npos)
                                      << text;
                                  ++told;
                                  comm.Barrier();
                                  throw;
                                }
                              }),
               UsageError);
  EXPECT_EQ(told, 4);
}

TEST(Agreement, ALongerDescriptionIsADifference) {
  EXPECT_THROW(comm::RunRanks(2,
                              [](comm::Communicator& comm) {
                                AgreeOnExperiment(comm, comm.rank() == 0 ? "seed = 1\n" : "seed = 1\nmore = 2\n");
                              }),
               UsageError);
}

}  // namespace
}  // namespace antiphon::train
