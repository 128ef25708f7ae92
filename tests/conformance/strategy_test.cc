// What every registered strategy must do, whatever it exchanges.
#include "parallel/strategy.h"

#include <gtest/gtest.h>

#include <map>

#include "base/random.h"
#include "comm/thread_world.h"
#include "temporary_folder.h"

namespace antiphon::parallel {
namespace {

constexpr int kFeatures = 7;
constexpr int kPdfs = 5;
constexpr int kFrames = 16;

// Keys that make a method, run by one worker, the same as plain training; methods without an entry need none.
const std::map<std::string, std::string>& NeutralSettings() {
  static const std::map<std::string, std::string> settings = {};
  return settings;
}

nn::Network MakeNetwork() {
  return {
      Config::Parse("[[layer]]\ntype = \"affine\"\ndim = 9\n[[layer]]\ntype = \"tanh\"\n[[layer]]\ntype = \"affine\"\n",
                    "net"),
      kFeatures, kPdfs, 3};
}

struct Minibatch {
  Matrix features{kFrames, kFeatures};
  std::vector<int32_t> pdf_ids;
  explicit Minibatch(int64_t step) {
    Rng rng(11, static_cast<uint64_t>(step));
    for (int64_t i = 0; i < features.size(); ++i) features.data()[i] = static_cast<float>(rng.Normal());
    for (int i = 0; i < kFrames; ++i) pdf_ids.push_back(static_cast<int32_t>(rng.Below(kPdfs)));
  }
};

// One worker's replica with everything that a strategy needs.
struct Learner {
  explicit Learner(const std::string& method, comm::Communicator& comm)
      : network(MakeNetwork()),
        optimizer(optim::MakeOptimizer(Config::Parse("type = \"sgd\"\nmomentum = 0.5\n", "opt"), network)) {
    const auto neutral = NeutralSettings().find(method);
    const std::string keys = neutral == NeutralSettings().end() ? "" : neutral->second;
    strategy = MakeStrategy(Config::Parse("method = \"" + method + "\"\n" + keys, "parallel"),
                            {&network, optimizer.get(), &comm});
    strategy->Start();
  }
  void Train(int64_t first, int64_t last) {
    for (int64_t step = first; step < last; ++step) {
      const Minibatch minibatch(step);
      StepInput input;
      input.context.training = true;
      input.context.step = step;
      input.features = minibatch.features;
      input.targets.pdf_ids = minibatch.pdf_ids;
      input.learning_rate = 0.3;
      strategy->Step(input);
    }
  }
  uint64_t End() {
    strategy->AfterEpoch();
    strategy->Finish();
    return network.Hash();
  }
  nn::Network network;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<Strategy> strategy;
};

class StrategyConformance : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<comm::Communicator> comm_ = comm::MakeSelfCommunicator();
};
INSTANTIATE_TEST_SUITE_P(Registered, StrategyConformance, ::testing::ValuesIn(StrategyRegistry::Get().Names()),
                         [](const auto& test) { return test.param; });

TEST_P(StrategyConformance, OneWorkerEqualsPlainTrainingBitForBit) {
  nn::Network network = MakeNetwork();
  const auto optimizer = optim::MakeOptimizer(Config::Parse("type = \"sgd\"\nmomentum = 0.5\n", "opt"), network);
  nn::Workspace workspace;
  for (int64_t step = 0; step < 20; ++step) {
    const Minibatch minibatch(step);
    nn::ExecContext context;
    context.training = true;
    context.step = step;
    const MatrixView logits = network.Forward(context, minibatch.features, workspace);
    nn::LossTargets targets;
    targets.pdf_ids = minibatch.pdf_ids;
    nn::SoftmaxCrossEntropy(logits, targets, logits);
    optimizer->BeginStep(0.3);
    network.Backward(context, logits, workspace, *optimizer);
    optimizer->EndStep();
  }
  Learner learner(GetParam(), *comm_);
  learner.Train(0, 20);
  EXPECT_EQ(learner.End(), network.Hash());
  EXPECT_NE(network.Hash(), MakeNetwork().Hash()) << "nothing was learned";
}

TEST_P(StrategyConformance, SavedStateContinuesBitForBit) {
  const testing::TemporaryFolder folder;
  Learner whole(GetParam(), *comm_);
  whole.Train(0, 20);
  const uint64_t expected = whole.End();

  Learner first(GetParam(), *comm_);
  first.Train(0, 9);
  SafetensorsWriter writer;
  first.optimizer->SaveState(writer, "optimizer");
  first.strategy->SaveState(writer, "strategy");
  writer.Add("values", std::span<const float>(first.network.values()));
  writer.Write(folder / "state.safetensors");

  Learner second(GetParam(), *comm_);
  const SafetensorsReader reader(folder / "state.safetensors");
  const std::vector<float> values = reader.ReadFloats("values");
  std::copy(values.begin(), values.end(), second.network.values().begin());
  second.network.MarkChanged();
  second.optimizer->LoadState(reader, "optimizer");
  second.strategy->LoadState(reader, "strategy");
  second.Train(9, 20);
  EXPECT_EQ(second.End(), expected);
}

TEST_P(StrategyConformance, RefusesUnknownKeysNamingTheNearest) {
  nn::Network network = MakeNetwork();
  const auto optimizer = optim::MakeOptimizer(Config::Parse("type = \"sgd\"\n", "opt"), network);
  const Config config = Config::Parse("method = \"" + GetParam() + "\"\nworkerz = 2\n", "recipe.toml");
  try {
    MakeStrategy(config, {&network, optimizer.get(), comm_.get()});
    FAIL() << "expected UsageError";
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("workers"), std::string::npos) << e.what();
  }
}

TEST(Strategies, AnUnknownMethodListsTheKnownOnes) {
  const auto comm = comm::MakeSelfCommunicator();
  nn::Network network = MakeNetwork();
  const auto optimizer = optim::MakeOptimizer(Config::Parse("type = \"sgd\"\n", "opt"), network);
  try {
    MakeStrategy(Config::Parse("method = \"seriel\"\n", "recipe.toml"), {&network, optimizer.get(), comm.get()});
    FAIL() << "expected UsageError";
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("serial"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("recipe.toml:1"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace antiphon::parallel
