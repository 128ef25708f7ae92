// Natural-gradient averaging compares the models that it combines on what it kept of streams that go on from chunk to
// chunk.
#include <gtest/gtest.h>

#include <cmath>

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

}  // namespace
}  // namespace antiphon::parallel
