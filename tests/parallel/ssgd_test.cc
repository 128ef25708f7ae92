// Synchronous SGD against one worker with the joined minibatch, and the exchange of gradients by itself.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "nn/side_targets.h"
#include "parallel/gradient_exchange.h"
#include "parallel/rate_scaling.h"
#include "parallel/small_learner.h"
#include "temporary_folder.h"

namespace antiphon::parallel {
namespace {

constexpr const char* kPlainSsgd = "method = \"ssgd\"\nrate-scaling = \"none\"\n";

std::vector<int64_t> Numbers(int64_t step, int workers) {
  std::vector<int64_t> numbers;
  for (int r = 0; r < workers; ++r) numbers.push_back(step * workers + r);
  return numbers;
}

// One that learned alone had no exchange; where several lack it, their checkpoint is damaged.
TEST(Ssgd, OnlyASingleWorkersStateMayLackTheExchange) {
  const testing::TemporaryFolder folder;
  const auto self = comm::MakeSelfCommunicator();
  Learner alone(kPlainSsgd, *self);
  alone.Train(0, 3);
  alone.Save(folder / "alone");
  OnRanks(2, [&](comm::Communicator& comm) {
    Learner learner(kPlainSsgd, comm);
    std::vector<SafetensorsReader> ranks;
    ranks.emplace_back(folder / "alone");
    EXPECT_NO_THROW(learner.strategy->state()->LoadFolded(ranks, "strategy"));
    ranks.emplace_back(folder / "alone");
    EXPECT_THROW(learner.strategy->state()->LoadFolded(ranks, "strategy"), InputError);
    return 0;
  });
}

TEST(Ssgd, SeveralWorkersAreOneWithTheJoinedMinibatch) {
  for (const int workers : {2, 3, 4}) {
    const auto self = comm::MakeSelfCommunicator();
    Learner one("method = \"serial\"\n", *self);
    for (int64_t step = 0; step < 12; ++step) one.Step(Minibatch::Joined(Numbers(step, workers)), step);
    const auto several = OnRanks(workers, [&](comm::Communicator& comm) {
      Learner learner(kPlainSsgd, comm);
      learner.Train(0, 12, comm.rank(), workers);
      return learner.Values();
    });
    EXPECT_LT(LargestDifference(several[0], one.Values()), 1e-6) << workers << " workers";
    EXPECT_GT(LargestDifference(one.Values(), Learner("method = \"serial\"\n", *self).Values()), 1e-2);
  }
}

// A layer's step has one limit, for its weights and its biases, whoever takes it.
TEST(Ssgd, LimitsALayersStepAsOneWorkerDoes) {
  constexpr const char* kLimited = "type = \"sgd\"\nmomentum = 0.5\nlayer-max-change = 0.01\n";
  const auto self = comm::MakeSelfCommunicator();
  Learner one("method = \"serial\"\n", *self, kLimited);
  for (int64_t step = 0; step < 12; ++step) {
    EXPECT_LT(one.Step(Minibatch::Joined(Numbers(step, 2)), step).report.max_change_scale, 1);
  }
  for (const std::string divide : {"", "divide = \"optimizer\"\n", "divide = \"gradients\"\n"}) {
    SCOPED_TRACE(divide);
    const auto several = OnRanks(2, [&](comm::Communicator& comm) {
      Learner learner(kPlainSsgd + divide, comm, kLimited);
      learner.Train(0, 12, comm.rank(), 2);
      return learner.Values();
    });
    EXPECT_LT(LargestDifference(several[0], one.Values()), 1e-6);
  }
}

constexpr int kSideStreams = 4;

// A recurrent layer whose limit acts, and a side task. Rows are in the order of time: kSideStreams sequences of each
// part.
std::vector<float> LearnSequences(const std::string& parallel, const std::vector<int64_t>& parts, double clip,
                                  comm::Communicator& comm, int64_t steps) {
  const std::string layers = fmt::format(
      "layer = [{{type = 'lstm', dim = 4, clip = {}}}, {{type = 'side-task', task = 'who', classes = 3, weight = "
      "2.0}}, "
      "{{type = 'affine'}}]",
      clip);
  Learner learner(parallel, comm, "type = \"sgd\"\n", {Config::Parse(layers, "net"), kFeatures, kPdfs, 3});
  const auto count = static_cast<int64_t>(parts.size());
  const SequenceLayout layout{.streams = kSideStreams * static_cast<int>(count), .frames = kFrames / kSideStreams};
  for (int64_t step = 0; step < steps; ++step) {
    Matrix features(kFrames * count, kFeatures);
    std::vector<int32_t> pdf_ids(static_cast<size_t>(kFrames * count));
    nn::SideTargets side;
    side.tasks.push_back({.task = "who", .labels = pdf_ids});
    for (int64_t k = 0; k < count; ++k) {
      const Minibatch one(parts[static_cast<size_t>(k)] + 100 * step);
      for (int64_t r = 0; r < kFrames; ++r) {
        const int64_t row = (r / kSideStreams * count + k) * kSideStreams + r % kSideStreams;
        std::copy(one.features.Row(r).begin(), one.features.Row(r).end(), features.Row(row).begin());
        pdf_ids[static_cast<size_t>(row)] = one.pdf_ids[static_cast<size_t>(r)];
        side.tasks[0].labels[static_cast<size_t>(row)] = one.pdf_ids[static_cast<size_t>(r)] % 3;
      }
    }
    StepInput input;
    input.context.training = true;
    input.context.step = step;
    input.context.sequences = &layout;
    input.context.side_targets = &side;
    input.features = features;
    input.targets.pdf_ids = pdf_ids;
    input.learning_rate = 0.5;
    learner.strategy->Step(input);
  }
  return learner.Values();
}

// What the loss is divided by counts for all that is not the senones' derivative, too.
TEST(Ssgd, SideTasksAndClippedDerivativesAreThoseOfTheJoinedMinibatch) {
  const auto self = comm::MakeSelfCommunicator();
  constexpr double kClip = 0.02;
  const std::vector<int64_t> all = {0, 1, 2};
  const std::vector<float> joined = LearnSequences("method = \"serial\"\n", all, kClip, *self, 4);
  EXPECT_GT(LargestDifference(joined, LearnSequences("method = \"serial\"\n", all, 0, *self, 4)), 1e-3);
  const auto several =
      OnRanks(3, [&](comm::Communicator& comm) { return LearnSequences(kPlainSsgd, {comm.rank()}, kClip, comm, 4); });
  EXPECT_LT(LargestDifference(several[0], joined), 1e-5);
}

TEST(Ssgd, ReplicasAreEqualAfterEveryStep) {
  const auto hashes = OnRanks(3, [](comm::Communicator& comm) {
    Learner learner(kPlainSsgd, comm);
    std::vector<uint64_t> after;
    for (int64_t step = 0; step < 6; ++step) {
      learner.Train(step, step + 1, comm.rank(), 3);
      after.push_back(learner.network.Hash());
    }
    return after;
  });
  EXPECT_EQ(hashes[1], hashes[0]);
  EXPECT_EQ(hashes[2], hashes[0]);
}

TEST(Ssgd, FramesCountEqualHoweverTheyAreShared) {
  // Rank 0 has all frames of the last step but one, rank 1 a few, rank 2 none.
  const int64_t frames[] = {16, 3, 0};
  const auto several = OnRanks(3, [&](comm::Communicator& comm) {
    Learner learner(kPlainSsgd, comm);
    learner.Step(Minibatch(comm.rank(), frames[comm.rank()]), 0);
    return learner.Values();
  });
  const auto self = comm::MakeSelfCommunicator();
  Learner one("method = \"serial\"\n", *self);
  Minibatch joined(0, 19);
  for (int64_t row = 0; row < 19; ++row) {
    const Minibatch source(row < 16 ? 0 : 1, row < 16 ? 16 : 3);
    const int64_t from = row < 16 ? row : row - 16;
    std::copy(source.features.Row(from).begin(), source.features.Row(from).end(), joined.features.Row(row).begin());
    joined.pdf_ids[static_cast<size_t>(row)] = source.pdf_ids[static_cast<size_t>(from)];
  }
  one.Step(joined, 0);
  EXPECT_LT(LargestDifference(several[0], one.Values()), 1e-6);
  EXPECT_EQ(several[2], several[0]);
}

TEST(Ssgd, AccumulatedMinibatchesAreOneJoined) {
  const auto comm = comm::MakeSelfCommunicator();
  Learner accumulating(std::string(kPlainSsgd) + "accumulate = 3\n", *comm);
  accumulating.Train(0, 9);
  Learner one("method = \"serial\"\n", *comm);
  for (int64_t step = 0; step < 3; ++step) one.Step(Minibatch::Joined({3 * step, 3 * step + 1, 3 * step + 2}), step);
  EXPECT_LT(LargestDifference(accumulating.Values(), one.Values()), 1e-6);
}

TEST(Ssgd, ContinuesInTheMiddleOfAnAccumulation) {
  const testing::TemporaryFolder folder;
  const auto file = [&](comm::Communicator& comm) { return folder / ("rank" + std::to_string(comm.rank())); };
  const std::string keys = std::string(kPlainSsgd) + "accumulate = 4\n";
  const auto whole = OnRanks(2, [&](comm::Communicator& comm) {
    Learner learner(keys, comm);
    learner.Train(0, 6, comm.rank(), 2);
    learner.Save(file(comm));
    learner.Train(6, 9, comm.rank(), 2);
    return learner.End();  // with a step along what is left
  });
  const auto continued = OnRanks(2, [&](comm::Communicator& comm) {
    Learner learner(keys, comm);
    learner.Load(file(comm));
    learner.Train(6, 9, comm.rank(), 2);
    return learner.End();
  });
  EXPECT_EQ(continued, whole);
}

TEST(Ssgd, RaisesTheRateSlowlyWithTheNumberOfWorkers) {
  const RateScaling scaling({.rate_scaling = "linear", .warmup_epochs = 0.1}, 4, {kFrames, 100, 3});
  EXPECT_EQ(scaling.Factor(0), 1.0);
  EXPECT_EQ(scaling.Factor(5), 2.5);
  EXPECT_EQ(scaling.Factor(10), 4.0);
  EXPECT_EQ(scaling.Factor(1000), 4.0);
  EXPECT_EQ(RateScaling({.rate_scaling = "sqrt", .warmup_epochs = 0}, 4, {}).Factor(0), 2.0);
  EXPECT_EQ(RateScaling({.rate_scaling = "none"}, 4, {kFrames, 100, 3}).Factor(0), 1.0);
  const auto automatic = [](int minibatches, int frames) {
    return RateScaling({.rate_scaling = "auto", .warmup_epochs = 0}, minibatches, {frames, 100, 3}).Factor(0);
  };
  EXPECT_EQ(automatic(4, 256), 4.0);
  EXPECT_EQ(automatic(8, 256), 4.0);   // a step of 2048 frames goes as far as one of 1024
  EXPECT_EQ(automatic(64, 256), 8.0);  // the root
  EXPECT_EQ(automatic(4, 1024), 2.0);
  EXPECT_EQ(automatic(8, 0), 4.0);
}

// Without rank nothing is preconditioned; with it, replicas stay equal although each worker has covariances of its own,
// and the step is another one.
TEST(Ssgd, SumsNaturalGradients) {
  const auto train = [](const char* optimizer) {
    const auto hashes = OnRanks(3, [&](comm::Communicator& comm) {
      Learner learner(kPlainSsgd, comm, optimizer);
      learner.Train(0, 12, comm.rank(), 3);
      return learner.End();
    });
    EXPECT_EQ(hashes[0], hashes[1]);
    EXPECT_EQ(hashes[0], hashes[2]);
    return hashes[0];
  };
  const uint64_t plain = train("type = \"sgd\"\nmomentum = 0\n");
  EXPECT_EQ(
      train("type = \"natural-gradient\"\ninput-rank = 0\noutput-rank = 0\nstep = {type = \"sgd\", momentum = 0}\n"),
      plain);
  EXPECT_NE(train("type = \"natural-gradient\"\nstep = {type = \"sgd\", momentum = 0}\n"), plain);
}

TEST(Ssgd, SendsTwiceTheModelWithoutItsOwnPart) {
  const auto bytes = OnRanks(2, [](comm::Communicator& comm) {
    Learner learner(kPlainSsgd, comm);
    const int64_t before = comm.bytes_sent();
    learner.Train(0, 1, comm.rank(), 2);
    return comm.bytes_sent() - before;
  });
  // Both ranks together: every value once to where it is summed and once back, and a weight per layer and rank.
  const nn::Network network = MakeNetwork();
  const auto layers = std::ssize(network.parameters()) / 2;
  EXPECT_EQ(bytes[0] + bytes[1], 2 * 4 * network.num_parameters() + layers * 2 * 8);
}

}  // namespace
}  // namespace antiphon::parallel
