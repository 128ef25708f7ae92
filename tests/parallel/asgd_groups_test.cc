// Slaves of several ranks: one model, each minibatch once per slave group, sparse links kept, runs that can be
// replayed.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>

#include "comm/simulated_world.h"
#include "parallel/small_sequences.h"
#include "temporary_folder.h"

namespace antiphon::parallel {
namespace {

struct Outcome {
  std::vector<float> values;
  std::vector<int64_t> trained;
};

std::vector<Outcome> Train(int workers, const std::string& keys, int64_t minibatches = 40) {
  return OnRanks(workers, [&](comm::Communicator& comm) {
    Learner learner("method = \"asgd-groups\"\n" + keys, comm);
    learner.TrainRound(0, minibatches);
    learner.End();
    return Outcome{learner.Values(), learner.trained};
  });
}

// One slave misses nothing, so that only the order of sums differs from one worker.
TEST(AsgdGroups, OneSlaveOfTwoRanksIsPlainTraining) {
  const auto comm = comm::MakeSelfCommunicator();
  Learner alone("method = \"serial\"\n", *comm);
  alone.Train(0, 20);
  for (const Outcome& outcome : Train(2, "", 20)) EXPECT_LT(LargestDifference(outcome.values, alone.Values()), 1e-5);
}

TEST(AsgdGroups, RanksOfASlaveTrainOnTheSameMinibatchesAndAllEndWithOneModel) {
  const auto outcomes = Train(4, "stripes = 2\nmax-staleness = -1\n");
  EXPECT_EQ(outcomes[0].trained, outcomes[1].trained);
  EXPECT_EQ(outcomes[2].trained, outcomes[3].trained);
  std::vector<int64_t> all = outcomes[0].trained;
  all.insert(all.end(), outcomes[2].trained.begin(), outcomes[2].trained.end());
  std::sort(all.begin(), all.end());
  std::vector<int64_t> expected(40);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.values, outcomes[0].values);
}

TEST(AsgdGroups, ALoggedRunIsReplayedBitForBit) {
  const testing::TemporaryFolder folder;
  const std::string log = (folder / "arrivals").string();
  const auto logged = Train(4, "stripes = 2\npush-every = 2\narrival-log = \"" + log + "\"\n");
  const auto again = Train(4, "stripes = 2\npush-every = 2\nreplay = \"" + log + "\"\n");
  EXPECT_EQ(again[0].values, logged[0].values);
}

TEST(AsgdGroups, SparseLinksStaySparse) {
  const nn::Network start = MakeNetwork();
  const auto values = Train(4, "stripes = 2\nsparse-links = 1\n")[3].values;
  const nn::Parameter& weight = *start.parameters()[2];
  int64_t zeros = 0;
  for (int64_t i = 0; i < weight.value.size(); ++i) {
    zeros += values[static_cast<size_t>(weight.offset + i)] == 0 ? 1 : 0;
  }
  // 9 units: 4 on the first rank, which do not see 4 of the other's 5, and 5 on the second, not 3 of the first's 4.
  EXPECT_EQ(zeros, 4 * 4 + 5 * 3);
}

TEST(AsgdGroups, RefusesWhatCannotBeDivided) { EXPECT_THROW(Train(3, "stripes = 2\n"), UsageError); }

struct StreamOutcome {
  std::vector<float> values;
  std::vector<float> shared;  // of the first layer that all ranks hold
  std::vector<int64_t> trained;
};

std::vector<StreamOutcome> TrainStreams(int workers, const std::string& keys, const std::string& network, size_t held,
                                        int64_t steps = 12) {
  return OnRanks(workers, [&](comm::Communicator& comm) {
    StreamLearner learner(keys, comm, network);
    learner.TrainStreams(0, steps);
    learner.End();
    StreamOutcome outcome;
    outcome.values = learner.Values();
    for (const nn::Parameter* p : learner.network.layer(held).parameters()) {
      outcome.shared.insert(outcome.shared.end(), p->value.data(), p->value.data() + p->value.size());
    }
    outcome.trained = learner.trained;
    return outcome;
  });
}

// One slave trains on chunks in order, and carries its states.
TEST(AsgdGroupsSequences, OneSlaveOfTwoRanksIsPlainTraining) {
  for (const char* network : {kSmallTdnn, kSmallLstm}) {
    const auto alone = TrainStreams(1, "method = \"serial\"\n", network, 2);
    for (const StreamOutcome& outcome : TrainStreams(2, "method = \"asgd-groups\"\n", network, 2)) {
      EXPECT_LT(LargestDifference(outcome.values, alone[0].values), 1e-5) << network;
    }
  }
}

// Each rank's own servers have the divided layers, the first rank's those that all hold.
TEST(AsgdGroupsSequences, AllRanksEndWithOneModel) {
  // Of the TDNN, layer 2 is an activation.
  for (const char* network : {kSmallTdnn, kSmallLstm}) {
    const auto outcomes = TrainStreams(4, "method = \"asgd-groups\"\nstripes = 2\nmax-staleness = -1\n", network, 2);
    std::vector<int64_t> all = outcomes[0].trained;
    all.insert(all.end(), outcomes[2].trained.begin(), outcomes[2].trained.end());
    std::sort(all.begin(), all.end());
    std::vector<int64_t> expected(24);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
    for (const StreamOutcome& outcome : outcomes) {
      EXPECT_EQ(outcome.values, outcomes[0].values) << network;
      EXPECT_EQ(outcome.shared, outcomes[0].shared) << network;
      for (const float v : outcome.values) ASSERT_TRUE(std::isfinite(v));
    }
  }
}

// The first rank of a slave pushes and pulls them, half of it to and from the other slave, and tells the second rank.
TEST(AsgdGroupsSequences, LayersThatAllHoldAreExchangedOnce) {
  constexpr int64_t kSteps = 10;
  std::atomic<int64_t> sent = 0;
  std::atomic<int64_t> values = 0;
  comm::RunRanks(4, [&](comm::Communicator& comm) {
    StreamLearner learner("method = \"asgd-groups\"\nstripes = 2\nmax-staleness = -1\n", comm,
                          "layer = [{type='lstm', dim=128}, {type='affine'}]");
    const int64_t before = comm.bytes_sent();
    learner.TrainStreams(0, kSteps);
    sent += comm.bytes_sent() - before;
    if (comm.rank() == 0) values = learner.network.num_parameters();
  });
  // Per minibatch of one of two slaves, and once more when the round ends.
  const double exchanges = 2 * (kSteps + 1);
  const double expected = exchanges * 4 * static_cast<double>(values) * (0.5 + 0.5 + 1);
  EXPECT_NEAR(static_cast<double>(sent), expected, 0.2 * expected);
}

TEST(AsgdGroupsSequences, ALoggedRunIsReplayedBitForBit) {
  const testing::TemporaryFolder folder;
  const std::string log = (folder / "arrivals").string();
  const std::string keys = "method = \"asgd-groups\"\nstripes = 2\npush-every = 2\n";
  const auto logged = TrainStreams(4, keys + "arrival-log = \"" + log + "\"\n", kSmallLstm, 2);
  const auto again = TrainStreams(4, keys + "replay = \"" + log + "\"\n", kSmallLstm, 2);
  EXPECT_EQ(again[0].values, logged[0].values);
}

}  // namespace
}  // namespace antiphon::parallel
