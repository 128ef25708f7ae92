// What another number of workers goes on with: places in the run, and what is remembered of gradients.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "parallel/small_sequences.h"
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

// Of replicas that learn on while their centre is evaluated, those that waited to be put back to it have no part.
TEST(FoldedState, IsWithoutReplicasThatWereToBeLeftOut) {
  for (const std::string method : {"easgd", "admm"}) {
    for (const int out : {0, 2}) {
      SCOPED_TRACE(fmt::format("{}, rank {}", method, out));
      const testing::TemporaryFolder folder;
      const auto file = [&](int rank) { return folder / fmt::format("rank{}", rank); };
      const std::string keys = "method = '" + method + "'\nsync-period = 4\n";
      const auto parked = OnRanks(3, [&](comm::Communicator& comm) {
        Learner learner(keys, comm);
        learner.Train(0, 6, comm.rank(), 3);
        learner.EndEpoch();
        EXPECT_TRUE(comm.rank() != out || learner.strategy->LeaveOut());
        learner.Save(file(comm.rank()));
        return SafetensorsReader(file(comm.rank())).ReadFloats("strategy.parked");
      });
      const auto folded = OnRanks(2, [&](comm::Communicator& comm) {
        std::vector<SafetensorsReader> ranks;
        for (int r = 0; r < 3; ++r) ranks.emplace_back(file(r));
        Learner learner(keys, comm);
        learner.strategy->state()->LoadFolded(ranks, "strategy");
        const auto own = folder / fmt::format("now{}", comm.rank());
        learner.Save(own);
        const SafetensorsReader now(own);
        return std::pair(now.ReadFloats("strategy.parked"), now.ReadDoubles("strategy.frame-weight").at(0));
      });
      std::vector<float> mean(parked[0].size(), 0.0f);
      for (int r = 0; r < 3; ++r) {
        for (size_t i = 0; i < mean.size() && r != out; ++i) mean[i] += parked[static_cast<size_t>(r)][i] / 2;
      }
      for (const auto& [values, frames] : folded) {
        EXPECT_LT(LargestDifference(values, mean), 1e-6);
        EXPECT_EQ(frames, 2 * kFrames) << "two steps of two workers, for two";
      }
      EXPECT_GT(LargestDifference(parked[static_cast<size_t>(out)], mean), 1e-3);
    }
  }
}

// As a run does that falls back: in a warm start the states are those of the synchronous method.
TEST(FoldedState, LeavesNoStatesOfANewerModel) {
  const testing::TemporaryFolder folder;
  for (const std::string method : {"'ssgd'\n", "'bmuf'\nwarm-start-epochs = 1\n", "'asgd'\nwarm-start-epochs = 1\n"}) {
    const auto train = [&](int64_t given_up) {
      return OnRanks(2, [&](comm::Communicator& comm) {
        StreamLearner learner("method = " + method, comm, kSmallLstm);
        learner.Save(folder / fmt::format("rank{}", comm.rank()));
        comm.Barrier();
        std::vector<SafetensorsReader> ranks;
        for (int r = 0; r < 2; ++r) ranks.emplace_back(folder / fmt::format("rank{}", r));
        learner.TrainStreams(0, given_up);
        LoadValues(ranks[0], "values", learner.network.values());
        learner.network.MarkChanged();
        learner.optimizer->ResetState();
        learner.strategy->state()->LoadFolded(ranks, "strategy");
        learner.strategy->ForgetStreams();
        learner.TrainStreams(3, 6);
        return learner.network.Hash();
      });
    };
    EXPECT_EQ(train(3), train(0)) << method;
  }
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
