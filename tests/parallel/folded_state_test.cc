// What another number of workers goes on with: places in the run, and what is remembered of gradients.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "parallel/small_learner.h"
#include "temporary_folder.h"

namespace antiphon::parallel {
namespace {

// The first of the integers `name` after `now` workers went on from what `then` saved after six steps.
int64_t CountAfter(const std::string& method, const std::string& name, int then, int now) {
  const testing::TemporaryFolder folder;
  const auto file = [&](int rank) { return folder / fmt::format("rank{}", rank); };
  OnRanks(then, [&](comm::Communicator& comm) {
    Learner learner(method, comm);
    learner.Train(0, 6, comm.rank(), then);
    learner.Save(file(comm.rank()));
    return 0;
  });
  return OnRanks(now, [&](comm::Communicator& comm) {
    std::vector<SafetensorsReader> ranks;
    for (int r = 0; r < then; ++r) ranks.emplace_back(file(r));
    Learner learner(method, comm);
    learner.strategy->state()->LoadFolded(ranks, "strategy");
    const auto own = folder / fmt::format("now{}", comm.rank());
    learner.Save(own);
    return SafetensorsReader(own).ReadInts("strategy" + name).at(0);
  })[0];
}

// Warm-up, and when codecs begin, go by steps of one worker, of which half as many workers take twice as many.
TEST(FoldedState, CountsStepsOfTheWorkersOfNow) {
  EXPECT_EQ(CountAfter("method = 'ssgd'\n", ".steps", 4, 2), 12);
  EXPECT_EQ(CountAfter("method = 'ssgd'\n", ".exchange.counts", 4, 2), 12);
  EXPECT_EQ(CountAfter("method = 'ssgd'\n", ".exchange.counts", 2, 3), 4);
  EXPECT_EQ(CountAfter("method = 'ssgd'\n", ".exchange.counts", 1, 2), 3) << "there was no exchange";
  EXPECT_EQ(CountAfter("method = 'averaging'\nsync-period = 3\n", ".counts", 4, 2), 12);
}

TEST(FoldedState, CountsStepsOfTheReplicasOfNow) {
  const std::string method = "method = 'model-parallel'\n";
  EXPECT_EQ(CountAfter(method + "stripes = 1\n", ".step", 4, 2), 12);
  EXPECT_EQ(CountAfter(method + "stripes = 2\n", ".step", 4, 2), 12);
  EXPECT_EQ(CountAfter(method, ".step", 4, 2), 6) << "one replica, of four stripes and of two";
}

TEST(FoldedState, HasTheStalenessByWhichRatesAreCompensated) {
  const testing::TemporaryFolder folder;
  SafetensorsWriter writer;
  const double staleness = 3.5;
  writer.Add("strategy.mean-staleness", std::span<const double>(&staleness, 1));
  const int64_t epochs[] = {0, 0};
  writer.Add("strategy.warm-start.epochs", std::span<const int64_t>(epochs));
  writer.Write(folder / "alone");
  const auto found = OnRanks(2, [&](comm::Communicator& comm) {
    Learner learner("method = 'asgd'\n", comm);
    std::vector<SafetensorsReader> ranks;
    ranks.emplace_back(folder / "alone");
    learner.strategy->state()->LoadFolded(ranks, "strategy");
    const auto own = folder / fmt::format("now{}", comm.rank());
    learner.Save(own);
    return SafetensorsReader(own).ReadDoubles("strategy.mean-staleness").at(0);
  });
  EXPECT_EQ(found, std::vector<double>(2, staleness));
}

}  // namespace
}  // namespace antiphon::parallel
