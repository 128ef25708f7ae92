// Pipelined back-propagation against single-threaded training that holds the old weights explicitly.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/compute_threads.h"
#include "base/random.h"
#include "comm/thread_world.h"
#include "parallel/divided.h"
#include "parallel/pipeline_state.h"
#include "parallel/stage_plan.h"
#include "parallel/strategy.h"
#include "temporary_folder.h"

namespace antiphon::parallel {
namespace {

constexpr int kStageFeatures = 6;
constexpr int kStagePdfs = 7;
constexpr int kStageFrames = 12;
constexpr double kRate = 0.3;

nn::Network MakeStages(int hidden_layers = 4) {
  std::string toml;
  for (int i = 0; i < hidden_layers; ++i) {
    toml += "[[layer]]\ntype = \"affine\"\ndim = 8\n[[layer]]\ntype = \"sigmoid\"\n";
    if (i == 1) toml += "[[layer]]\ntype = \"dropout\"\nproportion = 0.2\n";
  }
  toml += "[[layer]]\ntype = \"affine\"\n";
  return {Config::Parse(toml, "net"), kStageFeatures, kStagePdfs, 3};
}

std::unique_ptr<optim::Optimizer> MakeMomentum(nn::Network& network) {
  return optim::MakeOptimizer(Config::Parse("type = \"sgd\"\nmomentum = 0.5\n", "opt"), network);
}

struct StageMinibatch {
  Matrix features{kStageFrames, kStageFeatures};
  std::vector<int32_t> pdf_ids;
  explicit StageMinibatch(int64_t step) {
    Rng rng(11, static_cast<uint64_t>(step));
    for (int64_t i = 0; i < features.size(); ++i) features.data()[i] = static_cast<float>(rng.Normal());
    for (int i = 0; i < kStageFrames; ++i) pdf_ids.push_back(static_cast<int32_t>(rng.Below(kStagePdfs)));
  }
  StepInput Input(int64_t step) const {
    StepInput input;
    input.context.training = true;
    input.context.step = step;
    input.features = features;
    input.targets.pdf_ids = pdf_ids;
    input.learning_rate = kRate / (1.0 + 0.01 * static_cast<double>(step));
    return input;
  }
};

// One rank's replica of a run with `workers` ranks.
struct Stage {
  Stage(comm::Communicator& comm, const std::string& keys, int hidden_layers = 4)
      : communicator(comm), whole(MakeStages(hidden_layers)) {
    const Config config = Config::Parse("method = \"pipeline\"\n" + keys, "parallel");
    parts = DivideModel(config, whole, comm);
    network = parts ? PartOf(whole, parts->Of(comm.rank())) : whole.Clone();
    optimizer = MakeMomentum(network);
    strategy = MakeStrategy(config, {&network, optimizer.get(), &comm, {}, parts.get()});
    strategy->Start();
  }
  void Train(int64_t first, int64_t last) {
    for (int64_t step = first; step < last; ++step) {
      const StageMinibatch minibatch(step);
      outputs.push_back(strategy->Step(minibatch.Input(step)));
    }
  }
  void Drain() {
    for (const StepOutput& output : strategy->Drain()) outputs.push_back(output);
    strategy->AfterEpoch();
  }
  nn::Network Whole() { return WholeOf(communicator, parts.get(), network); }

  comm::Communicator& communicator;
  nn::Network whole;  // as it was at first
  std::unique_ptr<ModelParts> parts;
  nn::Network network;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<Strategy> strategy;
  std::vector<StepOutput> outputs;
};

// StageMinibatch by minibatch: forward with each stage's weights as they were 2(K − k) updates ago, backward with the
// newest.
nn::Network DelayedTraining(const std::vector<nn::LayerRange>& stages, int64_t steps, int drained_every,
                            double* loss_sum = nullptr) {
  nn::Network network = MakeStages();
  const auto optimizer = MakeMomentum(network);
  const auto lag_of = [&](size_t s) { return 2 * (static_cast<int64_t>(stages.size()) - 1 - static_cast<int64_t>(s)); };
  std::vector<std::vector<float>> history = {{network.values().begin(), network.values().end()}};
  nn::Network old = network.Clone();
  for (int64_t step = 0; step < steps; ++step) {
    const StageMinibatch minibatch(step);
    const StepInput input = minibatch.Input(step);
    if (drained_every > 0 && step % drained_every == 0) history = {history.back()};
    for (size_t s = 0; s < stages.size(); ++s) {
      const int64_t version = std::max<int64_t>(0, std::ssize(history) - 1 - lag_of(s));
      const std::span<float> mine = old.values(stages[s]);
      const auto offset = mine.data() - old.values().data();
      std::copy_n(history[static_cast<size_t>(version)].begin() + offset, mine.size(), mine.begin());
    }
    old.MarkChanged();
    nn::Workspace workspace;
    const MatrixView logits = old.Forward(input.context, input.features, workspace);
    const nn::LossResult loss = nn::SoftmaxCrossEntropy(logits, input.targets, logits);
    if (loss_sum != nullptr) *loss_sum += loss.loss_sum;
    optimizer->BeginStep(input.learning_rate);
    network.Backward(input.context, logits, workspace, *optimizer);
    optimizer->EndStep();
    history.emplace_back(network.values().begin(), network.values().end());
  }
  return network;
}

class PipelineTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { SetComputeThreads(1); }
};
INSTANTIATE_TEST_SUITE_P(Stages, PipelineTest, ::testing::Values(1, 2, 3, 5));

TEST_P(PipelineTest, EqualsDelayedTrainingBitForBit) {
  const int stages = GetParam();
  constexpr int64_t kSteps = 23;
  nn::Network plan_network = MakeStages();
  const auto plan = BalanceStages(plan_network, ModelledLayerCosts(plan_network), stages);
  double expected_loss = 0;
  const uint64_t expected = DelayedTraining(plan, kSteps, 0, &expected_loss).Hash();
  comm::RunRanks(stages, [&](comm::Communicator& comm) {
    Stage stage(comm, "");
    stage.Train(0, kSteps);
    stage.Drain();
    EXPECT_EQ(stage.Whole().Hash(), expected) << "rank " << comm.rank();
    double loss = 0;
    int64_t reported = 0;
    for (const StepOutput& output : stage.outputs) {
      loss += output.loss.loss_sum;
      if (output.loss.weight_sum > 0) ++reported;
      if (output.loss.weight_sum > 0 && reported > 2 * stages) {
        EXPECT_EQ(output.staleness, 2.0 * (stages - 1 - comm.rank()));
      }
    }
    EXPECT_EQ(reported, kSteps) << "each minibatch is reported once on every rank";
    EXPECT_EQ(loss, expected_loss);
  });
}

TEST_P(PipelineTest, DrainedAfterEveryMinibatchEqualsPlainTraining) {
  const int stages = GetParam();
  nn::Network network = MakeStages();
  const auto optimizer = MakeMomentum(network);
  nn::Workspace workspace;
  for (int64_t step = 0; step < 6; ++step) {
    const StageMinibatch minibatch(step);
    const StepInput input = minibatch.Input(step);
    const MatrixView logits = network.Forward(input.context, input.features, workspace);
    nn::SoftmaxCrossEntropy(logits, input.targets, logits);
    optimizer->BeginStep(input.learning_rate);
    network.Backward(input.context, logits, workspace, *optimizer);
    optimizer->EndStep();
  }
  comm::RunRanks(stages, [&](comm::Communicator& comm) {
    Stage stage(comm, "");
    for (int64_t step = 0; step < 6; ++step) {
      stage.Train(step, step + 1);
      stage.Drain();
    }
    EXPECT_EQ(stage.Whole().Hash(), network.Hash()) << "rank " << comm.rank();
  });
}

TEST_P(PipelineTest, SavedMidwayContinuesBitForBit) {
  const int stages = GetParam();
  const testing::TemporaryFolder folder;
  const auto file = [&](int rank) { return folder / ("rank" + std::to_string(rank) + ".safetensors"); };
  uint64_t whole = 0;
  comm::RunRanks(stages, [&](comm::Communicator& comm) {
    Stage stage(comm, "");
    stage.Train(0, 9);
    SafetensorsWriter writer;
    stage.optimizer->SaveState(writer, "optimizer");
    stage.strategy->state()->SaveState(writer, "strategy");
    writer.Add("values", std::span<const float>(stage.network.values()));
    writer.Write(file(comm.rank()));
    stage.Train(9, 20);
    stage.Drain();
    const uint64_t hash = stage.Whole().Hash();
    if (comm.rank() == 0) whole = hash;
  });
  comm::RunRanks(stages, [&](comm::Communicator& comm) {
    Stage stage(comm, "");
    const SafetensorsReader reader(file(comm.rank()));
    LoadValues(reader, "values", stage.network.values());
    stage.network.MarkChanged();
    stage.optimizer->LoadState(reader, "optimizer");
    stage.strategy->state()->LoadState(reader, "strategy");
    stage.Train(9, 20);
    stage.Drain();
    EXPECT_EQ(stage.Whole().Hash(), whole) << "rank " << comm.rank();
  });
}

// The delayed quadratic (G7) in each stage. Of a chain of linear layers with weights 1 only one layer learns, beside
// the optimum, where the loss is a quadratic: the outputs differ by `difference` = 2·w, and its gradient for w is w.
double LargestAtTheEnd(int stages, int learning, double rate) {
  constexpr int kSteps = 300;
  constexpr float kStart = 1e-3f;
  std::string toml;
  for (int k = 0; k < stages; ++k) {
    toml += "[[layer]]\ntype = \"linear\"\nlearning-rate-factor = " + std::string(k == learning ? "1.0" : "0.0") + "\n";
    if (k + 1 < stages) toml += "dim = 1\n";
  }
  double largest = 0;
  comm::RunRanks(stages, [&](comm::Communicator& comm) {
    nn::Network whole(Config::Parse(toml, "net"), 1, 2, 3);
    for (int k = 0; k < stages; ++k) {
      const MatrixView weight = whole.layer(static_cast<size_t>(k)).parameters()[0]->value;
      // The outputs of a top layer that learns differ by twice its w, and its two weights share the gradient.
      for (int64_t r = 0; r < weight.rows(); ++r)
        weight(r, 0) = (k == learning ? kStart : 1.0f) * (r == 0 ? 1.0f : -1.0f);
    }
    whole.MarkChanged();
    const Config config = Config::Parse("method = \"pipeline\"\n", "parallel");
    const auto parts = DivideModel(config, whole, comm);
    nn::Network network = parts ? PartOf(whole, parts->Of(comm.rank())) : whole.Clone();
    const auto optimizer = optim::MakeOptimizer(Config::Parse("type = \"sgd\"\n", "opt"), network);
    const auto strategy = MakeStrategy(config, {&network, optimizer.get(), &comm, {}, parts.get()});
    strategy->Start();
    Matrix features(2, 1);
    features(0, 0) = features(1, 0) = 1.0f;
    const std::vector<int32_t> pdf_ids = {0, 1};
    for (int step = 0; step < kSteps; ++step) {
      StepInput input;
      input.context.training = true;
      input.context.step = step;
      input.features = features;
      input.targets.pdf_ids = pdf_ids;
      input.learning_rate = rate;
      strategy->Step(input);
      if (comm.rank() != learning || step < kSteps - 20) continue;
      const float w = network.layer(static_cast<size_t>(learning)).parameters()[0]->value(0, 0);
      largest = std::max(largest, static_cast<double>(std::abs(w)));
    }
    strategy->Drain();
  });
  return largest / kStart;
}

TEST(PipelineDelay, EachStageIsStableUpToTheKnownStep) {
  SetComputeThreads(1);
  for (const int stages : {1, 2, 3}) {
    for (int stage = 0; stage < stages; ++stage) {
      const int delay = 2 * (stages - 1 - stage);
      const double curvature = stage == stages - 1 ? 0.5 : 1.0;
      const double limit = 2 * std::sin(std::numbers::pi / (2 * (2 * delay + 1))) / curvature;
      EXPECT_LT(LargestAtTheEnd(stages, stage, 0.93 * limit), 0.1) << stage + 1 << " of " << stages;
      EXPECT_GT(LargestAtTheEnd(stages, stage, 1.07 * limit), 10) << stage + 1 << " of " << stages;
    }
  }
}

TEST(PipelinePlan, IsTheBestOfAllCuts) {
  for (int trial = 0; trial < 50; ++trial) {
    const nn::Network network = MakeStages();
    Rng rng(5, static_cast<uint64_t>(trial));
    std::vector<double> costs;
    for (size_t i = 0; i < network.num_layers(); ++i) costs.push_back(1 + static_cast<double>(rng.Below(20)));
    const auto dearest = [&](const std::vector<nn::LayerRange>& stages) {
      double most = 0;
      for (const nn::LayerRange& s : stages) {
        double cost = 0;
        for (size_t i = s.first; i < s.last; ++i) cost += costs[i];
        most = std::max(most, cost);
      }
      return most;
    };
    double best = 1e9;
    for (int a = 1; a < static_cast<int>(network.num_layers()); ++a) {
      for (int b = a + 1; b < static_cast<int>(network.num_layers()); ++b) {
        if (!network.begins_range(static_cast<size_t>(a)) || !network.begins_range(static_cast<size_t>(b))) continue;
        best = std::min(best, dearest(StagesFrom(network, std::vector<int>{0, a, b})));
      }
    }
    EXPECT_EQ(dearest(BalanceStages(network, costs, 3)), best);
  }
}

// The ranks measure at the same time, and all cut alike.
TEST(PipelinePlan, MeasuredCostsCutTheNetworkAlikeOnAllRanks) {
  nn::Network outline(Config::Parse("[[layer]]\ntype = \"affine\"\ndim = 16\n[[layer]]\ntype = \"sigmoid\"\n"
                                    "[[layer]]\ntype = \"affine\"\ndim = 900\n[[layer]]\ntype = \"sigmoid\"\n"
                                    "[[layer]]\ntype = \"affine\"\ndim = 900\n[[layer]]\ntype = \"sigmoid\"\n"
                                    "[[layer]]\ntype = \"affine\"\n",
                                    "net"),
                      kStageFeatures, kStagePdfs, 3, nn::InitialValues::kOutline);
  EXPECT_EQ(outline.num_values(), 0u);
  const std::vector<double> costs = MeasuredLayerCosts(outline, {}, 64);
  ASSERT_EQ(costs.size(), 7u);
  for (const size_t layer : {0u, 2u, 4u, 6u}) EXPECT_GT(costs[layer], 0);
  comm::RunRanks(3, [&](comm::Communicator& comm) {
    nn::Network mine(Config::Parse(outline.ToToml(), "net"), kStageFeatures, kStagePdfs, 3,
                     nn::InitialValues::kOutline);
    const auto parts = DivideModel(Config::Parse("method = \"pipeline\"\nbalance = \"measured\"\n", "p"), mine, comm);
    // What was measured decides where, which a busy machine may change; each layer has one holder, in order.
    int holder = 0;
    for (const size_t layer : {0u, 2u, 4u, 6u}) {
      while (holder < 3 && !parts->Of(holder)[layer].all()) ++holder;
      ASSERT_LT(holder, 3) << layer;
      for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(parts->Of(rank)[layer].all(), rank == holder) << layer;
    }
  });
}

TEST(PipelinePlan, RanksDescribeOneNetworkAtTheSameTime) {
  const nn::Network shared(Config::Parse("[[layer]]\ntype = \"affine\"\ndim = 16\n[[layer]]\ntype = \"sigmoid\"\n"
                                         "[[layer]]\ntype = \"affine\"\n",
                                         "net"),
                           kStageFeatures, kStagePdfs, 3, nn::InitialValues::kOutline);
  const std::string alone = shared.ToToml();
  for (int round = 0; round < 50; ++round) {
    comm::RunRanks(3, [&](comm::Communicator&) {
      const nn::Network mine(Config::Parse(shared.ToToml(), "net"), kStageFeatures, kStagePdfs, 3,
                             nn::InitialValues::kOutline);
      EXPECT_EQ(mine.ToToml(), alone);
    });
  }
}

TEST(PipelinePlan, RefusesMoreStagesThanParts) {
  try {
    comm::RunRanks(7, [&](comm::Communicator& comm) { Stage stage(comm, ""); });
    FAIL() << "expected UsageError";
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("7 stages"), std::string::npos) << e.what();
  }
}

// Rows of products and the order of sums differ, so that only rounding may.
TEST(PipelineStripes, EqualAnUnstripedOutputLayer) {
  SetComputeThreads(1);
  nn::Network plan_network = MakeStages();
  const size_t output = plan_network.num_layers() - 1;
  double loss = 0;
  nn::Network expected = DelayedTraining({{0, output}, {output, output + 1}}, 15, 0, &loss);
  comm::RunRanks(4, [&](comm::Communicator& comm) {
    Stage stage(comm, "output-stripes = 3\n");
    stage.Train(0, 15);
    stage.Drain();
    const nn::Network learned = stage.Whole();
    double difference = 0;
    for (size_t i = 0; i < expected.num_values(); ++i) {
      difference = std::max(difference, static_cast<double>(std::abs(learned.values()[i] - expected.values()[i])));
    }
    EXPECT_LT(difference, 1e-5) << "rank " << comm.rank();
    double mine = 0;
    for (const StepOutput& o : stage.outputs) mine += o.loss.loss_sum;
    EXPECT_NEAR(mine, loss, 1e-4);
  });
}

}  // namespace
}  // namespace antiphon::parallel
