// What every registered strategy must do, whatever it exchanges.
#include "parallel/strategy.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "comm/simulated_world.h"
#include "parallel/detour.h"
#include "parallel/small_sequences.h"
#include "temporary_folder.h"

namespace antiphon::parallel {
namespace {

// Keys that make a method, run by one worker, the same as plain training; methods without an entry need none.
const std::map<std::string, std::string>& NeutralSettings() {
  static const std::map<std::string, std::string> settings = {};
  return settings;
}

// Keys for runs with several workers that last a few steps.
const std::map<std::string, std::string>& ShortSettings() {
  static const std::map<std::string, std::string> settings = {
      {"admm", "sync-period = 4\n"},  {"averaging", "sync-period = 4\n"},
      {"bmuf", "sync-period = 4\n"},  {"eamsgd", "sync-period = 4\n"},
      {"easgd", "sync-period = 4\n"}, {"natural-gradient-averaging", "sync-period = 4\n"},
  };
  return settings;
}

// Not a method, but one whose lowest layers take another way.
constexpr const char* kAboveDataParallel = "model-parallel-above-data-parallel";

std::vector<std::string> AllWays() {
  std::vector<std::string> names = StrategyRegistry::Get().Names();
  names.emplace_back(kAboveDataParallel);
  return names;
}

// So many of those layers suit the network of frames; of those of sequences each has its own number.
std::string Keys(const std::string& method, const std::map<std::string, std::string>& settings, int below = 4) {
  if (method == kAboveDataParallel) {
    return fmt::format("method = \"model-parallel\"\ndata-parallel-layers = {}\n", below);
  }
  const auto found = settings.find(method);
  return "method = \"" + method + "\"\n" + (found == settings.end() ? "" : found->second);
}

class StrategyConformance : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<comm::Communicator> comm_ = comm::MakeSelfCommunicator();
  std::string neutral() const { return Keys(GetParam(), NeutralSettings()); }
  std::string several() const { return Keys(GetParam(), ShortSettings()); }

  // Hashes of all ranks after so many steps.
  std::vector<uint64_t> TrainTogether(int workers, int64_t steps) {
    return OnRanks(workers, [&](comm::Communicator& comm) {
      Learner learner(several(), comm);
      learner.Train(0, steps, comm.rank(), workers);
      return learner.End();
    });
  }
  bool IsAsynchronous() {
    return OnRanks(2, [&](comm::Communicator& comm) {
             return Learner(several(), comm).strategy->synchronous() ? 0 : 1;
           }).front() != 0;
  }
};
INSTANTIATE_TEST_SUITE_P(Registered, StrategyConformance, ::testing::ValuesIn(AllWays()), [](const auto& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// The same, without what trains alone.
class ParallelConformance : public StrategyConformance {};
std::vector<std::string> ParallelMethods() {
  std::vector<std::string> names = AllWays();
  std::erase(names, "serial");
  return names;
}
INSTANTIATE_TEST_SUITE_P(Registered, ParallelConformance, ::testing::ValuesIn(ParallelMethods()), [](const auto& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(StrategyConformance, OneWorkerEqualsPlainTrainingBitForBit) {
  if (GetParam() == "hessian-free") GTEST_SKIP() << "its steps are not the optimiser's";
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
  Learner learner(neutral(), *comm_);
  learner.Train(0, 20);
  EXPECT_EQ(learner.End(), network.Hash());
  EXPECT_NE(network.Hash(), MakeNetwork().Hash()) << "nothing was learned";
}

TEST_P(StrategyConformance, SavedStateContinuesBitForBit) {
  const testing::TemporaryFolder folder;
  Learner whole(neutral(), *comm_);
  whole.Train(0, 20);
  const uint64_t expected = whole.End();

  Learner first(neutral(), *comm_);
  first.Train(0, 9);
  first.Save(folder / "state.safetensors");
  Learner second(neutral(), *comm_);
  second.Load(folder / "state.safetensors");
  second.Train(9, 20);
  EXPECT_EQ(second.End(), expected);
}

TEST_P(StrategyConformance, RefusesUnknownKeysNamingTheNearest) {
  nn::Network network = MakeNetwork();
  const auto optimizer = optim::MakeOptimizer(Config::Parse("type = \"sgd\"\n", "opt"), network);
  const Config config = Config::Parse(neutral() + "workerz = 2\n", "recipe.toml");
  try {
    MakeStrategy(config, {&network, optimizer.get(), comm_.get()});
    FAIL() << "expected UsageError";
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("workers"), std::string::npos) << e.what();
  }
}

TEST_P(ParallelConformance, ReplicasHoldOneModelAfterAnEpoch) {
  for (const int workers : {2, 3, 4}) {
    const std::vector<uint64_t> hashes = TrainTogether(workers, 10);
    for (const uint64_t hash : hashes) EXPECT_EQ(hash, hashes[0]) << workers << " workers";
    EXPECT_NE(hashes[0], MakeNetwork().Hash()) << "nothing was learned";
  }
}

// What only one rank saves must be all ranks' to the bit: between any two steps, and after an epoch.
TEST_P(ParallelConformance, WhatIsSaidToBeCommonIs) {
  constexpr int kRanks = 3;
  struct Said {
    CommonState common;
    uint64_t values = 0, optimizer = 0;
    std::map<std::string, uint64_t> tensors;
    bool operator==(const Said& o) const {
      return common.values == o.common.values && common.values_always == o.common.values_always &&
             common.optimizer == o.common.optimizer && common.tensors == o.common.tensors && values == o.values &&
             optimizer == o.optimizer && tensors == o.tensors;
    }
  };
  const testing::TemporaryFolder folder;
  const auto ranks = OnRanks(kRanks, [&](comm::Communicator& comm) {
    std::vector<Said> all;
    Learner learner(several(), comm);
    if (learner.parts || learner.strategy->rounds() != nullptr) return all;
    const auto look = [&] {
      learner.strategy->state()->BeforeSave();
      Said said;
      said.common = learner.strategy->state()->common_state();
      const auto file = folder / fmt::format("{}.{}", all.size(), comm.rank());
      learner.Save(file);
      const SafetensorsReader reader(file);
      const auto sum = [&](const std::string& name) { return Checksum(reader.Tensor(name).data); };
      if (said.common.values) said.values = Checksum(std::as_bytes(learner.network.values()));
      for (const std::string& name : reader.Names()) {
        if (said.common.optimizer && name.starts_with("optimizer")) said.optimizer ^= sum(name);
      }
      for (const std::string& name : said.common.tensors) said.tensors[name] = sum("strategy" + name);
      all.push_back(std::move(said));
    };
    look();
    for (int64_t step = 0; step < 9; ++step) {
      learner.Train(step, step + 1, comm.rank(), kRanks);
      look();
    }
    learner.EndEpoch();
    look();
    return all;
  });
  for (int r = 1; r < kRanks; ++r) {
    for (size_t i = 0; i < ranks[0].size(); ++i)
      EXPECT_EQ(ranks[static_cast<size_t>(r)][i], ranks[0][i]) << "look " << i;
  }
  const std::set<std::string> sharing = {
      "admm", "averaging", "bmuf", "easgd", "eamsgd", "hessian-free", "natural-gradient-averaging", "ssgd"};
  if (sharing.contains(GetParam())) {
    const CommonState& last = ranks[0].back().common;
    EXPECT_TRUE(last.values) << "after an epoch all hold one model";
  }
}

TEST_P(ParallelConformance, TwoRunsGiveTheSameBits) {
  if (IsAsynchronous()) GTEST_SKIP() << "the order of arrivals is the run's own";
  EXPECT_EQ(TrainTogether(3, 10), TrainTogether(3, 10));
}

TEST_P(ParallelConformance, ASimulatedClusterGivesTheBitsOfThreads) {
  if (IsAsynchronous()) GTEST_SKIP() << "the order of arrivals is the run's own";
  std::vector<uint64_t> simulated(4);
  comm::RunSimulated(4, comm::ClusterOptions{}, [&](comm::Communicator& comm) {
    Learner learner(several(), comm);
    learner.Train(0, 10, comm.rank(), 4);
    simulated[static_cast<size_t>(comm.rank())] = learner.End();
  });
  EXPECT_EQ(simulated, TrainTogether(4, 10));
}

TEST_P(ParallelConformance, ReplicasContinueBitForBit) {
  if (IsAsynchronous()) GTEST_SKIP() << "the order of arrivals is the run's own";
  const testing::TemporaryFolder folder;
  constexpr int kWorkers = 3;
  // Stops in the middle of a period and right after an epoch's end.
  for (const bool at_epoch_end : {false, true}) {
    const auto whole = OnRanks(kWorkers, [&](comm::Communicator& comm) {
      Learner learner(several(), comm);
      learner.Train(0, 7, comm.rank(), kWorkers);
      if (at_epoch_end) learner.EndEpoch();
      learner.Save(folder / ("rank" + std::to_string(comm.rank())));
      learner.Train(7, 14, comm.rank(), kWorkers);
      return learner.End();
    });
    const auto continued = OnRanks(kWorkers, [&](comm::Communicator& comm) {
      Learner learner(several(), comm);
      learner.Load(folder / ("rank" + std::to_string(comm.rank())));
      learner.Train(7, 14, comm.rank(), kWorkers);
      return learner.End();
    });
    EXPECT_EQ(continued, whole) << (at_epoch_end ? "after an epoch" : "in the middle");
  }
}

TEST_P(ParallelConformance, MinibatchesMayBeEmpty) {
  const auto hashes = OnRanks(3, [&](comm::Communicator& comm) {
    Learner learner(several(), comm);
    if (learner.strategy->rounds() != nullptr) return uint64_t{0};  // there are no empty ones in the pool
    learner.Train(0, 5, comm.rank(), 3);
    // The data do not divide by three.
    const int index = learner.strategy->data_share().index;
    learner.Step(Minibatch(15 + index, index == 0 ? kFrames : 0), 15);
    learner.EndEpoch();
    for (const float v : learner.network.values()) EXPECT_TRUE(std::isfinite(v));
    learner.Train(6, 8, comm.rank(), 3);
    return learner.End();
  });
  for (const uint64_t hash : hashes) EXPECT_EQ(hash, hashes[0]);
}

TEST_P(ParallelConformance, ADyingRankEndsTheRunWithItsError) {
  try {
    OnRanks(3, [&](comm::Communicator& comm) {
      Learner learner(several(), comm);
      learner.Train(0, 5, comm.rank(), 3);
      if (comm.rank() == 1) throw InputError("shard 1 is missing");
      learner.Train(5, 40, comm.rank(), 3);
      return learner.End();
    });
    FAIL() << "expected the error of rank 1";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("shard 1 is missing"), std::string::npos) << e.what();
  }
}

TEST_P(ParallelConformance, FallingBackForgetsTheNewerModel) {
  if (IsAsynchronous()) GTEST_SKIP() << "the order of arrivals is the run's own";
  // Steps and exchanges are counted over the whole run, detours included, and the rate and the first exchange may
  // depend on them: not here.
  const std::set<std::string> without_rates = {"hessian-free", "pipeline"};
  std::string keys = several();
  if (!without_rates.contains(GetParam())) keys += "rate-scaling = \"none\"\n";
  if (GetParam() == "natural-gradient-averaging") keys += "best-first = false\n";
  for (const auto& [direct, detour] : DirectAndAfterADetour(keys)) EXPECT_EQ(detour, direct);
}

TEST_P(ParallelConformance, DescribesItself) {
  Learner learner(neutral(), *comm_);
  EXPECT_FALSE(learner.strategy->Describe().empty());
}

// The kinds of layers of sequences that kSmallTdnn and kSmallLstm lack. The shortcut leads around what "tdnn-f" stands
// for but its batch normalisation, whose running statistics are each worker's own.
constexpr const char* kSmallConvolution =
    "layer = [{type='convolution', filters=3, offsets=[-1, 0, 1]}, {type='relu'}, {type='tdnn', dim=8}, {type='tanh'}, "
    "{type='residual', scale=0.7, layers=[{type='splice', offsets=[-1, 0]}, "
    "{type='linear', dim=4, orthonormal=true}, {type='splice', offsets=[0, 1]}, {type='affine', dim=8}, "
    "{type='tanh'}]}, {type='affine'}]";
constexpr const char* kSmallBothWays =
    "layer = [{type='gru', dim=8}, {type='bidirectional', right=2, layers=[{type='gru', dim=4}]}, "
    "{type='affine', dim=7}, {type='tanh'}, {type='affine'}]";

// On networks that look at several frames or carry a state, with padded chunks.
class SequenceConformance : public ::testing::TestWithParam<std::string> {
 protected:
  std::string keys() const { return Keys(GetParam(), ShortSettings(), -1); }
  static constexpr const char* kNetworks[] = {kSmallTdnn, kSmallLstm, kSmallConvolution, kSmallBothWays};

  std::vector<uint64_t> TrainTogether(int workers, const char* network, int64_t steps) const {
    return OnRanks(workers, [&](comm::Communicator& comm) {
      StreamLearner learner(keys(), comm, network);
      learner.TrainStreams(0, steps);
      return learner.End();
    });
  }
  bool IsAsynchronous() const {
    return OnRanks(2, [&](comm::Communicator& comm) {
             return StreamLearner(keys(), comm, kSmallTdnn).strategy->synchronous() ? 0 : 1;
           }).front() != 0;
  }
  const AsLargeLayers as_large_layers_;
};
INSTANTIATE_TEST_SUITE_P(Registered, SequenceConformance, ::testing::ValuesIn(AllWays()), [](const auto& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(SequenceConformance, OneWorkerEqualsPlainTrainingBitForBit) {
  if (GetParam() == "hessian-free") GTEST_SKIP() << "its steps are not the optimiser's";
  const auto comm = comm::MakeSelfCommunicator();
  for (const char* toml : kNetworks) {
    nn::Network network = MakeSequenceNetwork(toml);
    const auto optimizer = optim::MakeOptimizer(Config::Parse("type = \"sgd\"\nmomentum = 0.5\n", "opt"), network);
    nn::Workspace workspace;
    for (int64_t step = 0; step < 14; ++step) {
      const StreamMinibatch minibatch(step, step, network.time_context());
      const StepInput input = minibatch.Input(step);
      const MatrixView logits = network.Forward(input.context, input.features, workspace);
      nn::SoftmaxCrossEntropy(logits, input.targets, logits);
      optimizer->BeginStep(input.learning_rate);
      network.Backward(input.context, logits, workspace, *optimizer);
      optimizer->EndStep();
    }
    StreamLearner learner(keys(), *comm, toml);
    learner.TrainStreams(0, 14);
    EXPECT_EQ(learner.End(), network.Hash()) << toml;
    EXPECT_NE(network.Hash(), MakeSequenceNetwork(toml).Hash()) << "nothing was learned";
  }
}

TEST_P(SequenceConformance, ReplicasHoldOneModelAfterAnEpoch) {
  if (GetParam() == "serial") GTEST_SKIP() << "trains alone";
  for (const char* network : kNetworks) {
    for (const int workers : {2, 3, 4}) {
      const std::vector<uint64_t> hashes = TrainTogether(workers, network, 9);
      for (const uint64_t hash : hashes) EXPECT_EQ(hash, hashes[0]) << network << ", " << workers << " workers";
      EXPECT_NE(hashes[0], MakeSequenceNetwork(network).Hash()) << "nothing was learned";
    }
  }
}

TEST_P(SequenceConformance, TwoRunsAndASimulatedClusterGiveTheSameBits) {
  if (GetParam() == "serial") GTEST_SKIP() << "trains alone";
  if (IsAsynchronous()) GTEST_SKIP() << "the order of arrivals is the run's own";
  for (const char* network : kNetworks) {
    const std::vector<uint64_t> once = TrainTogether(3, network, 9);
    EXPECT_EQ(TrainTogether(3, network, 9), once) << network;
    std::vector<uint64_t> simulated(3);
    comm::RunSimulated(3, comm::ClusterOptions{}, [&](comm::Communicator& comm) {
      StreamLearner learner(keys(), comm, network);
      learner.TrainStreams(0, 9);
      simulated[static_cast<size_t>(comm.rank())] = learner.End();
    });
    EXPECT_EQ(simulated, once) << network;
  }
}

TEST_P(SequenceConformance, ReplicasContinueInTheMiddleOfUtterancesBitForBit) {
  if (GetParam() == "serial") GTEST_SKIP() << "trains alone";
  if (IsAsynchronous()) GTEST_SKIP() << "the order of arrivals is the run's own";
  const testing::TemporaryFolder folder;
  for (const char* network : kNetworks) {
    const auto whole = OnRanks(3, [&](comm::Communicator& comm) {
      StreamLearner learner(keys(), comm, network);
      learner.TrainStreams(0, 6);
      learner.Save(folder / ("rank" + std::to_string(comm.rank())));
      learner.TrainStreams(6, 13);
      return learner.End();
    });
    const auto continued = OnRanks(3, [&](comm::Communicator& comm) {
      StreamLearner learner(keys(), comm, network);
      learner.Load(folder / ("rank" + std::to_string(comm.rank())));
      learner.TrainStreams(6, 13);
      return learner.End();
    });
    EXPECT_EQ(continued, whole) << network;
  }
}

TEST_P(SequenceConformance, MinibatchesMayBeEmpty) {
  if (GetParam() == "serial") GTEST_SKIP() << "trains alone";
  for (const char* network : kNetworks) {
    const auto hashes = OnRanks(3, [&](comm::Communicator& comm) {
      StreamLearner learner(keys(), comm, network);
      if (learner.strategy->rounds() != nullptr) return uint64_t{0};  // there are no empty ones in the pool
      learner.TrainStreams(0, 5);
      const int index = learner.strategy->data_share().index;
      learner.StepStreams(5, 15 + index, index == 0 ? kChunkOutputs : 0);
      learner.EndEpoch();
      for (const float v : learner.network.values()) EXPECT_TRUE(std::isfinite(v));
      // The next epoch's utterances begin.
      const StreamMinibatch minibatch(30 + index, 0, learner.network.time_context());
      learner.strategy->Step(minibatch.Input(30 + index));
      return learner.End();
    });
    for (const uint64_t hash : hashes) EXPECT_EQ(hash, hashes[0]) << network;
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
