// Pipelined training of networks that look at several frames or carry a state: against single-threaded training that
// holds the old weights explicitly, through evaluations, and from checkpoints in the middle of utterances.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/compute_threads.h"
#include "parallel/small_sequences.h"
#include "parallel/stage_plan.h"
#include "temporary_folder.h"

namespace antiphon::parallel {
namespace {

// As in pipeline_test.cc, with one workspace, whose states all forward passes hand on, whatever their weights.
uint64_t DelayedTraining(const std::string& toml, const std::vector<nn::LayerRange>& stages, int64_t steps,
                         double* loss_sum) {
  nn::Network network = MakeSequenceNetwork(toml);
  const auto optimizer = optim::MakeOptimizer(Config::Parse("type = \"sgd\"\nmomentum = 0.5\n", "opt"), network);
  std::vector<std::vector<float>> history = {{network.values().begin(), network.values().end()}};
  nn::Network old = network.Clone();
  nn::Workspace workspace;
  for (int64_t step = 0; step < steps; ++step) {
    const StreamMinibatch minibatch(step, step, network.time_context());
    const StepInput input = minibatch.Input(step);
    for (size_t s = 0; s < stages.size(); ++s) {
      const int64_t lag = 2 * (std::ssize(stages) - 1 - static_cast<int64_t>(s));
      const int64_t version = std::max<int64_t>(0, std::ssize(history) - 1 - lag);
      const std::span<float> mine = old.values(stages[s]);
      const auto offset = mine.data() - old.values().data();
      std::copy_n(history[static_cast<size_t>(version)].begin() + offset, mine.size(), mine.begin());
    }
    old.MarkChanged();
    const MatrixView logits = old.Forward(input.context, input.features, workspace);
    *loss_sum += nn::SoftmaxCrossEntropy(logits, input.targets, logits).loss_sum;
    optimizer->BeginStep(input.learning_rate);
    network.Backward(input.context, logits, workspace, *optimizer);
    optimizer->EndStep();
    history.emplace_back(network.values().begin(), network.values().end());
  }
  return network.Hash();
}

class PipelineSequences : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { SetComputeThreads(1); }
  const AsLargeLayers as_large_layers_;
};
INSTANTIATE_TEST_SUITE_P(Stages, PipelineSequences, ::testing::Values(1, 2, 3, 4));

const std::string kPipeline = "method = \"pipeline\"\n";
constexpr const char* kKinds[] = {
    kSmallTdnn, kSmallLstm,
    "layer = [{type='convolution', filters=4, offsets=[-1, 0, 1]}, {type='relu'}, {type='batch-norm'}, "
    "{type='gru', dim=6}, {type='residual', layers=[{type='tdnn', dim=6}, {type='relu'}]}, "
    "{type='bidirectional', right=2, layers=[{type='gru', dim=4}]}, {type='affine'}]"};

TEST_P(PipelineSequences, EqualDelayedTrainingBitForBit) {
  const int stages = GetParam();
  constexpr int64_t kSteps = 19;
  for (const std::string toml : kKinds) {
    SCOPED_TRACE(toml);
    nn::Network plan_network = MakeSequenceNetwork(toml);
    const auto plan = BalanceStages(plan_network, ModelledLayerCosts(plan_network), stages);
    double expected_loss = 0;
    const uint64_t expected = DelayedTraining(toml, plan, kSteps, &expected_loss);
    comm::RunRanks(stages, [&](comm::Communicator& comm) {
      StreamLearner stage(kPipeline, comm, toml);
      stage.TrainStreams(0, kSteps);
      stage.Drain();
      EXPECT_EQ(stage.Whole().Hash(), expected) << "rank " << comm.rank();
      EXPECT_EQ(stage.loss(), expected_loss);
    });
  }
}

// States go on when the pipeline has run empty, and an evaluation does not touch them.
TEST_P(PipelineSequences, DrainedAfterEveryMinibatchEqualPlainTraining) {
  const int stages = GetParam();
  for (const std::string toml : kKinds) {
    SCOPED_TRACE(toml);
    const auto alone = comm::MakeSelfCommunicator();
    StreamLearner plain("method = \"serial\"\n", *alone, toml);
    std::vector<std::vector<float>> logits;
    for (int64_t step = 0; step < 7; ++step) {
      plain.TrainStreams(step, step + 1);
      logits.push_back(plain.Evaluate(2));
    }
    comm::RunRanks(stages, [&](comm::Communicator& comm) {
      StreamLearner stage(kPipeline, comm, toml);
      for (size_t step = 0; step < logits.size(); ++step) {
        stage.TrainStreams(static_cast<int64_t>(step), static_cast<int64_t>(step) + 1);
        stage.Drain();
        const std::vector<float> mine = stage.Evaluate(2);
        EXPECT_EQ(mine, comm.rank() + 1 == stages ? logits[step] : std::vector<float>()) << "rank " << comm.rank();
      }
      EXPECT_EQ(stage.Whole().Hash(), plain.network.Hash()) << "rank " << comm.rank();
    });
  }
}

// Of the states at every stage, and of what is under way, wherever the utterances stand.
TEST_P(PipelineSequences, SavedMidwayContinueBitForBit) {
  const int stages = GetParam();
  const testing::TemporaryFolder folder;
  const auto file = [&](int rank) { return folder / ("rank" + std::to_string(rank) + ".safetensors"); };
  for (const std::string toml : kKinds) {
    for (const int64_t stop : {1, 2, 9, 10, 11}) {
      SCOPED_TRACE(toml + " stopped at " + std::to_string(stop));
      uint64_t whole = 0;
      comm::RunRanks(stages, [&](comm::Communicator& comm) {
        StreamLearner stage(kPipeline, comm, toml);
        stage.TrainStreams(0, stop);
        stage.Save(file(comm.rank()));
        stage.TrainStreams(stop, 17);
        const uint64_t hash = stage.End();
        if (comm.rank() == 0) whole = hash;
      });
      comm::RunRanks(stages, [&](comm::Communicator& comm) {
        StreamLearner stage(kPipeline, comm, toml);
        // What another run left behind must be gone.
        stage.TrainStreams(20, 23);
        stage.Drain();
        stage.Load(file(comm.rank()));
        stage.TrainStreams(stop, 17);
        EXPECT_EQ(stage.End(), whole) << "rank " << comm.rank();
      });
    }
  }
}

// What a splice copies stays in its stage, and layers above a stride count for the rows that they have.
TEST(PipelineSequencePlan, CutsWhereLittleCrosses) {
  nn::Network network = MakeSequenceNetwork(kSmallTdnn);
  for (const int stages : {2, 3, 4}) {
    for (const nn::LayerRange& range : BalanceStages(network, ModelledLayerCosts(network), stages)) {
      EXPECT_TRUE(range.first == 0 || network.layer_type(range.first - 1) != "splice") << stages;
    }
  }
  nn::Network strided = MakeSequenceNetwork(
      "layer = [{type='affine', dim=64}, {type='relu'}, {type='tdnn', dim=64, offsets=[0], stride=4}, {type='relu'}, "
      "{type='affine', dim=64}, {type='relu'}, {type='affine', dim=64}, {type='relu'}, {type='affine'}]");
  const std::vector<double> costs = ModelledLayerCosts(strided);
  EXPECT_EQ(costs[4] / costs[1], 0.25);  // activations of as many units
  const std::vector<double> measured = MeasuredLayerCosts(strided, {}, 64);
  for (const size_t layer : {0u, 3u, 5u}) EXPECT_GT(measured[layer], 0);
}

TEST(PipelineSequencePlan, MeasuresLayersThatGiveFewerRowsThanTheyGet) {
  nn::Network outline(Config::Parse(kSmallLstm, "net"), kFeatures, kPdfs, 3, nn::InitialValues::kOutline);
  const std::vector<double> costs = MeasuredLayerCosts(outline, {}, 256);
  for (size_t i = 0; i < outline.num_layers(); ++i) EXPECT_EQ(costs[i] > 0, outline.begins_range(i)) << i;
  comm::RunRanks(2, [](comm::Communicator& comm) {
    StreamLearner stage(kPipeline + "balance = \"measured\"\n", comm, kSmallLstm);
    stage.TrainStreams(0, 5);
    stage.End();
  });
}

// The ranks of a divided output layer get the same rows.
TEST(PipelineSequenceStripes, EqualAnUndividedOutputLayer) {
  const auto values = [](int workers, const std::string& keys) {
    return OnRanks(workers, [&](comm::Communicator& comm) {
      StreamLearner stage(kPipeline + keys, comm, kSmallLstm);
      stage.TrainStreams(0, 9);
      stage.End();
      return stage.Values();
    })[0];
  };
  EXPECT_LT(LargestDifference(values(4, "output-stripes = 3\n"), values(2, "first-layers = [0, 7]\n")), 1e-5);
}

}  // namespace
}  // namespace antiphon::parallel
