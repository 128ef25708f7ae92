// Layers striped over ranks: the same model as on one rank, less memory for each, and sparse links that stay sparse.
#include <gtest/gtest.h>

#include "parallel/small_learner.h"
#include "parallel/striped_network.h"

namespace antiphon::parallel {
namespace {

std::vector<float> Together(int workers, const std::string& keys, int64_t steps = 10) {
  return OnRanks(workers,
                 [&](comm::Communicator& comm) {
                   Learner learner("method = \"model-parallel\"\n" + keys, comm);
                   learner.Train(0, steps, comm.rank(), workers);
                   learner.End();
                   return learner.Values();
                 })
      .front();
}

std::vector<float> Alone(const std::vector<std::vector<int64_t>>& minibatches) {
  const auto comm = comm::MakeSelfCommunicator();
  Learner learner("method = \"serial\"\n", *comm);
  for (size_t step = 0; step < minibatches.size(); ++step) {
    learner.Step(Minibatch::Joined(minibatches[step]), static_cast<int64_t>(step));
  }
  learner.End();
  return learner.Values();
}

TEST(ModelParallel, StripesEqualOneRank) {
  std::vector<std::vector<int64_t>> each;
  for (int64_t m = 0; m < 10; ++m) each.push_back({m});
  const std::vector<float> alone = Alone(each);
  for (const int stripes : {2, 3, 4}) EXPECT_LT(LargestDifference(Together(stripes, ""), alone), 2e-6) << stripes;
}

TEST(ModelParallel, AGridEqualsOneRankWithTheJoinedMinibatches) {
  std::vector<std::vector<int64_t>> pairs;
  for (int64_t m = 0; m < 10; ++m) pairs.push_back({2 * m, 2 * m + 1});
  const std::vector<float> alone = Alone(pairs);
  EXPECT_LT(LargestDifference(Together(4, "stripes = 2\nrate-scaling = \"none\"\n"), alone), 2e-6);
  EXPECT_LT(LargestDifference(Together(2, "stripes = 1\nrate-scaling = \"none\"\n"), alone), 2e-6);
}

TEST(ModelParallel, ARankTrainsItsShareOfTheParameters) {
  comm::RunRanks(3, [](comm::Communicator& comm) {
    nn::Network whole(Config::Parse("[[layer]]\ntype = \"affine\"\ndim = 300\n[[layer]]\ntype = \"relu\"\n"
                                    "[[layer]]\ntype = \"affine\"\n",
                                    "net"),
                      100, 600, 1);
    Learner learner("method = \"model-parallel\"\n", comm, "type = \"sgd\"\nmomentum = 0.5\n", std::move(whole));
    EXPECT_EQ(learner.network.num_parameters() * 3, learner.network.num_whole_parameters());
    EXPECT_EQ(learner.optimizer->state_bytes(), learner.network.num_values() * sizeof(float));
  });
}

// Bytes of a minibatch as the header of StripedNetwork has them.
TEST(ModelParallel, SendsWhatTheFormulaSays) {
  constexpr int kStripes = 3;
  constexpr int kWidth = 300;
  constexpr int kOutputs = 600;
  const auto bytes = OnRanks(kStripes, [&](comm::Communicator& comm) {
    nn::Network whole(
        Config::Parse("[[layer]]\ntype = \"repeat\"\ntimes = 3\nlayers = [{type = \"affine\", dim = 300}, "
                      "{type = \"relu\"}]\n[[layer]]\ntype = \"affine\"\n",
                      "net"),
        kFeatures, kOutputs, 1);
    Learner learner("method = \"model-parallel\"\n", comm, "type = \"sgd\"\n", std::move(whole));
    const int64_t before = comm.bytes_sent();
    learner.Train(0, 1, comm.rank(), kStripes);
    return static_cast<double>(comm.bytes_sent() - before);
  });
  // Each of three hidden layers is gathered forward and its derivative summed backward; a rank sends its own third to
  // the two others, and the two thirds of the derivative that are theirs.
  const double layer = 4.0 * kFrames * kWidth * (kStripes - 1) / kStripes;
  const double softmax = 4.0 * 4 * kFrames * (kStripes - 1);
  double sum = 0;
  for (const double sent : bytes) sum += sent / kStripes;
  EXPECT_NEAR(sum, 3 * 2 * layer + softmax, 0.02 * sum);
}

// A rank draws its own rows as the whole network would.
TEST(ModelParallel, PartsAreDrawnLikeTheWhole) {
  const std::string toml = MakeNetwork().ToToml();
  nn::Network whole(Config::Parse(toml, "net"), kFeatures, kPdfs, 77);
  for (const std::string method : {"model-parallel", "pipeline"}) {
    comm::RunRanks(3, [&](comm::Communicator& comm) {
      nn::Network outline(Config::Parse(toml, "net"), kFeatures, kPdfs, 77, nn::InitialValues::kOutline);
      const auto parts = DivideModel(Config::Parse("method = \"" + method + "\"\n", "p"), outline, comm);
      nn::Network part(Config::Parse(toml, "net"), kFeatures, kPdfs, 77, nn::InitialValues::kRandom,
                       parts->Of(comm.rank()));
      EXPECT_LT(part.num_parameters(), whole.num_parameters());
      EXPECT_EQ(WholeOf(comm, parts.get(), part).Hash(), whole.Hash());
      EXPECT_EQ(part.Clone().Hash(), part.Hash());
    });
  }
}

TEST(ModelParallel, SparseLinksStaySparse) {
  const nn::Network start = MakeNetwork();
  const std::vector<float> values = Together(3, "sparse-links = 1\n", 20);
  int64_t zeros = 0;
  int64_t moved = 0;
  const nn::Parameter& weight = *start.parameters()[2];  // between hidden layers of 9 units, 3 on each rank
  for (int64_t i = 0; i < weight.value.size(); ++i) {
    const float now = values[static_cast<size_t>(weight.offset + i)];
    zeros += now == 0 ? 1 : 0;
    moved += now != 0 && now != weight.value.data()[i] ? 1 : 0;
  }
  // Each unit sees the 3 of its own rank and 1 of each of the others.
  EXPECT_EQ(zeros, 9 * (9 - 5));
  EXPECT_EQ(moved, 9 * 5);
}

TEST(ModelParallel, RefusesReplicasThatDoNotDivideTheWorkers) {
  EXPECT_THROW(Together(3, "stripes = 2\n"), UsageError);
}

}  // namespace
}  // namespace antiphon::parallel
