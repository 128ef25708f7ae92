// Ranks started for different experiments find out before the first step.
#include "train/agreement.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <utility>
#include <vector>

#include "comm/thread_world.h"
#include "temporary_folder.h"
#include "train/synthetic_task.h"
#include "train/text_difference.h"

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

// Whatever decides what is learned.
TEST(Agreement, IsOnEverythingThatTheGuideNames) {
  const ::antiphon::testing::TemporaryFolder folder;
  const auto store = MakeSyntheticStore(folder / "store");
  const auto other_store = MakeSyntheticStore(folder / "other", {.noise = 0.8});
  const auto describe = [&](const std::function<void(TrainingTask&, TrainOptions&)>& change, int workers = 2,
                            bool resume = false) {
    TrainingTask task = SmallTask(store, folder / "run");
    task.parallel = Config::Parse("method = \"bmuf\"\nsync-period = 4\n", "parallel");
    TrainOptions options = SmallOptions();
    change(task, options);
    return DescribeForAgreement(task, options, workers, resume);
  };
  const auto nothing = [](TrainingTask&, TrainOptions&) {};
  const std::string mine = describe(nothing);
  const std::vector<std::pair<const char*, std::string>> others = {
      {"workers = 3", describe(nothing, 3)},
      {"resume = true", describe(nothing, 2, true)},
      {"seed = 7", describe([](TrainingTask& task, TrainOptions&) { task.seed = 7; })},
      {"data = ", describe([&](TrainingTask& task, TrainOptions&) { task.store = other_store; })},
      {"held-out data = ", describe([&](TrainingTask& task, TrainOptions&) { task.held_out_store = other_store; })},
      {"epochs = 9", describe([](TrainingTask&, TrainOptions& options) { options.schedule.epochs = 9; })},
      {"momentum = 0.25", describe([](TrainingTask& task, TrainOptions&) { task.optimizer.Set("momentum", "0.25"); })},
      {"sync-period = 5", describe([](TrainingTask& task, TrainOptions&) { task.parallel.Set("sync-period", "5"); })},
      {"dim = 25", describe([](TrainingTask& task, TrainOptions&) {
         task.network =
             Config::Parse("[[layer]]\ntype = \"affine\"\ndim = 25\n[[layer]]\ntype = \"affine\"\n", "network");
       })}};
  for (const auto& [line, other] : others) {
    const auto difference = FirstDifference(mine, other);
    ASSERT_TRUE(difference.has_value()) << line;
    EXPECT_NE(difference->second.find(line), std::string::npos) << line << ": " << difference->second;
  }
  EXPECT_FALSE(FirstDifference(mine, describe(nothing)).has_value());
}

}  // namespace
}  // namespace antiphon::train
