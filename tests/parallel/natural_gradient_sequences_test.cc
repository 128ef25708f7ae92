// Natural-gradient averaging compares the models that it combines on what it kept of streams that go on from chunk to
// chunk.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "nn/side_targets.h"
#include "parallel/lent_streams.h"
#include "parallel/small_learner.h"

namespace antiphon::parallel {
namespace {

const char kLstm[] =
    "layer = [{type='tdnn', dim=8, offsets=[0, 1]}, {type='lstm', dim=7, projection=5}, {type='affine'}]";

// The last `kCombine` averaged models are tried; the mean of the best number of them is the final one. Were each kept
// chunk to begin anew, it would be another number.
TEST(NaturalGradientAveraging, CombinesModelsByTheLossOfStreams) {
  constexpr int kCombine = 12, kPeriod = 4, kSteps = 200, kKeptChunks = 7;
  struct Outcome {
    std::vector<std::vector<float>> averaged;
    std::vector<float> final;
  };
  const auto ranks = OnRanks(2, [&](comm::Communicator& comm) {
    Learner learner(
        "method = \"natural-gradient-averaging\"\nsync-period = 4\nwarmup-epochs = 0\ncombine = 12\n"
        "combine-frames = 84\n",
        comm, "type = \"natural-gradient\"\n[step]\nmax-change = 0.5\n",
        {Config::Parse(kLstm, "net"), kFeatures, kPdfs, 3});
    Streams streams(learner.network.time_context(), {}, comm.rank(), 2);
    Outcome outcome;
    for (int step = 0; step < kSteps; ++step) {
      learner.strategy->Step(streams.Chunk(step));
      streams.Spoil();
      if ((step + 1) % kPeriod == 0) outcome.averaged.push_back(learner.Values());
    }
    learner.strategy->AfterEpoch();
    learner.strategy->Finish();
    outcome.final = learner.Values();
    return outcome;
  });

  nn::Network network(Config::Parse(kLstm, "net"), kFeatures, kPdfs, 3);
  const std::vector<std::vector<float>>& models = ranks[0].averaged;
  std::vector<double> sum(network.num_values(), 0.0);
  std::vector<float> best;
  double least = INFINITY;
  for (size_t n = 1; n <= kCombine; ++n) {
    std::vector<float> mean(sum.size());
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i] += static_cast<double>(models[models.size() - n][i]);
      mean[i] = static_cast<float>(sum[i] / static_cast<double>(n));
    }
    std::copy(mean.begin(), mean.end(), network.values().begin());
    network.MarkChanged();
    const double loss = LossOfStreams(network, kKeptChunks);
    if (loss >= least) continue;
    least = loss;
    best = mean;
  }
  EXPECT_EQ(ranks[0].final, best);
  EXPECT_EQ(ranks[1].final, best);
}

// Until the first exchange a step is two of half a minibatch each, shorter ones; then everybody takes the better model.
TEST(NaturalGradientAveraging, FirstStepsAreHalvedAndShorter) {
  const std::string limited = "type = \"sgd\"\nmomentum = 0\nmax-change = ";
  const auto method = [](const std::string& small) {
    return "method = \"natural-gradient-averaging\"\nrate-scaling = \"none\"\nsync-period = 2\ncombine = 0\n"
           "small-first-steps = " +
           small + "\n";
  };
  const auto after = [&](int workers, const std::string& toml, const std::string& optimizer, int steps) {
    return OnRanks(workers, [&](comm::Communicator& comm) {
      Learner learner(toml, comm, optimizer);
      learner.Train(0, steps, comm.rank(), workers);
      return learner.Values();
    });
  };
  // By hand: the halves of minibatches, at half the rate, which is the whole's over the same frames.
  const double share = 0.01 * std::sqrt(0.5);
  std::vector<std::vector<float>> candidates;
  for (int rank = 0; rank < 2; ++rank) {
    candidates.push_back(OnRanks(1, [&](comm::Communicator& comm) {
      Learner learner("method = \"serial\"\n", comm, limited + fmt::format("{:.17g}\n", share));
      for (const int64_t number : {rank, 2 + rank}) {
        const Minibatch whole(number);
        for (const int64_t first : {0, kFrames / 2}) {
          Minibatch half(0, 0);
          half.features = Matrix(ConstMatrixView(whole.features).Rows(first, kFrames / 2));
          half.pdf_ids.assign(whole.pdf_ids.begin() + first, whole.pdf_ids.begin() + first + kFrames / 2);
          learner.Step(half, number, 0.15);
        }
      }
      return learner.Values();
    })[0]);
  }
  const auto halved = after(2, method("true"), limited + "0.01\n", 2);
  EXPECT_EQ(halved[0], halved[1]);
  EXPECT_TRUE(halved[0] == candidates[0] || halved[0] == candidates[1]);
  EXPECT_NE(after(2, method("false"), limited + "0.01\n", 2)[0], halved[0]);
  // Behind the first exchange steps are whole again, and so is their limit.
  const auto later = after(2, method("true"), limited + "0.01\n", 3);
  EXPECT_GT(LargestDifference(later[0], halved[0]), 0);
  double moved = 0;
  for (size_t i = 0; i < later[0].size(); ++i) moved += std::pow(later[0][i] - halved[0][i], 2);
  EXPECT_NEAR(std::sqrt(moved), 0.01, 1e-4);
}

// Their labels are told for all frames at once.
TEST(NaturalGradientAveraging, FirstStepsWithLabelsOfASideTaskAreWhole) {
  OnRanks(2, [](comm::Communicator& comm) {
    const std::string layers =
        "layer = [{type = 'affine', dim = 6}, {type = 'side-task', task = 'who', classes = 3}, {type = 'affine'}]";
    Learner learner("method = \"natural-gradient-averaging\"\nsync-period = 2\n", comm, "type = \"sgd\"\n",
                    {Config::Parse(layers, "net"), kFeatures, kPdfs, 3});
    const Minibatch minibatch(comm.rank());
    nn::SideTargets side;
    side.tasks.push_back({.task = "who", .labels = std::vector<int32_t>(kFrames, 1)});
    StepInput input;
    input.context.training = true;
    input.context.side_targets = &side;
    input.features = minibatch.features;
    input.targets.pdf_ids = minibatch.pdf_ids;
    input.learning_rate = 0.3;
    learner.strategy->Step(input);
    EXPECT_EQ(side.tasks[0].seen.weight_sum, kFrames);
    return 0;
  });
}

// The halves of minibatches of chunks that stand alone are the first streams and the others; where streams go on, the
// minibatch stays whole.
TEST(NaturalGradientAveraging, FirstStepsHalveStreamsThatStandAlone) {
  const auto after = [](bool small, bool alone) {
    return OnRanks(2, [&](comm::Communicator& comm) {
      nn::Network network(Config::Parse(kLstm, "net"), kFeatures, kPdfs, 3);
      const auto optimizer = optim::MakeOptimizer(Config::Parse("type = \"sgd\"\n", "optimizer"), network);
      const std::string toml =
          "method = \"natural-gradient-averaging\"\nrate-scaling = \"none\"\nsync-period = 2\ncombine = 0\n";
      const auto strategy = MakeStrategy(
          Config::Parse(toml + (small ? "" : "small-first-steps = false\n"), "parallel"),
          {.network = &network, .optimizer = optimizer.get(), .comm = &comm, .plan = {.chunks_stand_alone = alone}});
      strategy->Start();
      Streams streams(network.time_context(), {.alone = alone}, comm.rank(), 2);
      for (int step = 0; step < 2; ++step) strategy->Step(streams.Chunk(step));
      return std::vector<float>(network.values().begin(), network.values().end());
    });
  };
  // By hand: one stream after the other, each gradient divided by what both weigh.
  std::vector<std::vector<float>> candidates;
  for (int rank = 0; rank < 2; ++rank) {
    nn::Network network(Config::Parse(kLstm, "net"), kFeatures, kPdfs, 3);
    const auto optimizer = optim::MakeOptimizer(Config::Parse("type = \"sgd\"\n", "optimizer"), network);
    Streams both(network.time_context(), {.alone = true}, rank, 2);
    for (int step = 0; step < 2; ++step) {
      const double weight = FrameWeight(both.Chunk(step));
      for (int s = 0; s < 2; ++s) {
        Streams one(network.time_context(), {.alone = true}, 2 * rank + s, Streams::kStreams);
        StepInput input = one.Chunk(step);
        input.targets.total_weight = weight;
        nn::Workspace ws;
        const MatrixView logits = network.Forward(input.context, input.features, ws);
        nn::SoftmaxCrossEntropy(logits, input.targets, logits);
        optimizer->BeginStep(input.learning_rate);
        network.Backward(input.context, logits, ws, *optimizer);
        optimizer->EndStep();
      }
    }
    candidates.emplace_back(network.values().begin(), network.values().end());
  }
  const auto halved = after(true, true);
  EXPECT_EQ(halved[0], halved[1]);
  EXPECT_LT(std::min(LargestDifference(halved[0], candidates[0]), LargestDifference(halved[0], candidates[1])), 1e-6);
  EXPECT_GT(LargestDifference(halved[0], after(false, true)[0]), 1e-5);
  EXPECT_EQ(after(true, false), after(false, false));
}

}  // namespace
}  // namespace antiphon::parallel
