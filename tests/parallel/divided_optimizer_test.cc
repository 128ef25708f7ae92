// Synchronous SGD whose workers divide the optimiser's state and the gradients, against the same without a division.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/simulated_world.h"
#include "parallel/gradient_exchange.h"
#include "parallel/small_learner.h"
#include "parallel/small_sequences.h"
#include "temporary_folder.h"

namespace antiphon::parallel {
namespace {

constexpr const char* kSsgd = "method = \"ssgd\"\nrate-scaling = \"none\"\n";
constexpr const char* kMomentum = "type = \"sgd\"\nmomentum = 0.5\n";

std::string DividedBy(const char* what) { return fmt::format("{}divide = \"{}\"\n", kSsgd, what); }

// Odd sizes, fewer rows than workers, a layer that does not learn and one with a limit of its own.
nn::Network OddNetwork() {
  return {Config::Parse("[[layer]]\ntype = \"affine\"\ndim = 13\nmax-change = 0.05\n[[layer]]\ntype = \"batch-norm\"\n"
                        "affine = true\n[[layer]]\ntype = \"tanh\"\n[[layer]]\ntype = \"affine\"\ndim = 11\n"
                        "learning-rate-factor = 0\n[[layer]]\ntype = \"relu\"\n[[layer]]\ntype = \"linear\"\ndim = 3\n"
                        "[[layer]]\ntype = \"affine\"\n",
                        "net"),
          kFeatures, kPdfs, 3};
}

std::vector<uint64_t> HashesAfter(int workers, const std::string& keys, const std::string& optimizer,
                                  nn::Network (*network)() = MakeNetwork) {
  return OnRanks(workers, [&](comm::Communicator& comm) {
    Learner learner(keys, comm, optimizer, network());
    learner.Train(0, 9, comm.rank(), workers);
    return learner.End();
  });
}

class DividedOptimizer : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Kinds, DividedOptimizer, ::testing::Values("optimizer", "gradients"));

TEST_P(DividedOptimizer, GivesTheBitsOfTheWholeOne) {
  const std::string optimizers[] = {
      "type = \"sgd\"\n", kMomentum,
      "type = \"sgd\"\nmomentum = 0.9\nnesterov = true\nweight-decay = 0.01\ndecoupled-decay = false\n",
      // Short enough that every step is cut.
      "type = \"sgd\"\nmomentum = 0.5\nmax-change = 0.03\n",
      "type = \"sgd\"\nlayer-max-change = 0.02\nmax-change = 0.03\nweight-decay = 0.1\n",
      "type = \"adam\"\nweight-decay = 0.01\n",
      "type = \"natural-gradient\"\ninput-rank = 3\noutput-rank = 2\nstep = {momentum = 0.5, max-change = 0.1}\n"};
  for (const std::string& optimizer : optimizers) {
    for (const int workers : {2, 3, 4}) {
      for (const auto network : {MakeNetwork, OddNetwork}) {
        SCOPED_TRACE(fmt::format("{}, {} workers", optimizer, workers));
        const auto whole = HashesAfter(workers, kSsgd, optimizer, network);
        EXPECT_EQ(HashesAfter(workers, DividedBy(GetParam()), optimizer, network), whole);
        EXPECT_NE(whole[0], network().Hash());
      }
    }
  }
}

TEST_P(DividedOptimizer, GivesTheBitsOfTheWholeOneWithCodecs) {
  // The scale of the last one is too large at first, in the rows of some ranks longer than in those of others.
  for (const std::string codec :
       {"{type = \"bf16\", feedback = true}", "{type = \"int8\"}", "{type = \"top-k\", density = 0.2}",
        "{type = \"fp16\"}", "{type = \"fp16\", scale = 1e7}"}) {
    const std::string keys = "codec-start-epochs = 0.03\ncodec = " + codec + "\n";
    EXPECT_EQ(HashesAfter(3, DividedBy(GetParam()) + keys, kMomentum), HashesAfter(3, kSsgd + keys, kMomentum))
        << codec;
  }
}

// A sum that is infinite in the rows of one rank alone.
TEST_P(DividedOptimizer, AllSkipTheStepThatOneOfThemFindsUnusable) {
  const auto results = OnRanks(3, [&](comm::Communicator& comm) {
    nn::Network network(Config::Parse("[[layer]]\ntype = \"linear\"\n", "net"), kFeatures, 9, 3);
    const auto share = DivideValues(Config::Parse(DividedBy(GetParam()), "parallel"), network, comm);
    const auto optimizer = optim::MakeOptimizer(Config::Parse("type = \"sgd\"\n", "opt"), share->stepped());
    GradientExchange exchange(Config::Parse("type = \"fp16\"\nscale = 1024\n", "codec"),
                              {.divide = ParseDivide(GetParam())},
                              {.network = &network, .optimizer = optimizer.get(), .comm = &comm, .share = share.get()});
    nn::Parameter& weight = *network.parameters()[0];
    std::vector<int> taken;
    for (const float largest : {1.0f, 1e3f, 1.0f}) {
      Matrix gradient(weight.value.rows(), weight.value.cols());
      gradient(0, 0) = largest;
      exchange.BeginMinibatch(1);
      exchange.TakeDense(weight, gradient);
      exchange.LayerDone(0);
      taken.push_back(exchange.Finish() ? 1 : 0);
    }
    return std::pair(taken, exchange.Describe());
  });
  for (const auto& [taken, scale] : results) {
    EXPECT_EQ(taken, (std::vector<int>{1, 0, 1}));
    EXPECT_EQ(scale, "gradients travel as fp16, scaled by 512");
  }
}

TEST_P(DividedOptimizer, GivesTheBitsOfTheWholeOneOnSequences) {
  const auto train = [&](const std::string& keys) {
    return OnRanks(3, [&](comm::Communicator& comm) {
      StreamLearner learner(keys, comm, kSmallLstm);
      learner.TrainStreams(0, 7);
      const int index = comm.rank();
      learner.StepStreams(7, 21 + index, index == 0 ? kChunkOutputs : 0);  // the others have none
      return learner.End();
    });
  };
  EXPECT_EQ(train(DividedBy(GetParam())), train(kSsgd));
}

TEST_P(DividedOptimizer, IsTheSameOnASimulatedCluster) {
  std::vector<uint64_t> simulated(4);
  comm::RunSimulated(4, comm::ClusterOptions{}, [&](comm::Communicator& comm) {
    Learner learner(DividedBy(GetParam()), comm);
    learner.Train(0, 9, comm.rank(), 4);
    simulated[static_cast<size_t>(comm.rank())] = learner.End();
  });
  EXPECT_EQ(simulated, HashesAfter(4, kSsgd, kMomentum));
}

TEST_P(DividedOptimizer, ContinuesBitForBit) {
  const testing::TemporaryFolder folder;
  const auto file = [&](comm::Communicator& comm) { return folder / ("rank" + std::to_string(comm.rank())); };
  const auto train = [&](bool again) {
    return OnRanks(3, [&](comm::Communicator& comm) {
      Learner learner(DividedBy(GetParam()), comm, "type = \"adam\"\n");
      if (again) {
        learner.Load(file(comm));
      } else {
        learner.Train(0, 5, comm.rank(), 3);
        learner.Save(file(comm));
      }
      learner.Train(5, 9, comm.rank(), 3);
      return learner.End();
    });
  };
  const auto whole = train(false);
  EXPECT_EQ(train(true), whole);
  EXPECT_EQ(whole, HashesAfter(3, kSsgd, "type = \"adam\"\n"));
}

// Whoever held the state, and whoever holds it now, the next steps are those of a run that was never divided.
TEST_P(DividedOptimizer, StateIsDealtAnewToAnyNumberOfWorkers) {
  const testing::TemporaryFolder folder;
  const std::string optimizer =
      "type = \"natural-gradient\"\ninput-rank = 0\noutput-rank = 0\nstep = {type = 'adam'}\n";
  const auto save = [&](int workers, const std::string& keys) {
    OnRanks(workers, [&](comm::Communicator& comm) {
      Learner learner(keys, comm, optimizer, OddNetwork());
      for (int64_t step = 0; step < 5; ++step) learner.Step(Minibatch(step), step);  // all the same
      learner.Save(folder / ("rank" + std::to_string(comm.rank())));
      SafetensorsWriter writer;
      SaveOptimizer(writer, *learner.optimizer, learner.value_share.get());
      writer.Write(folder / ("optimizer" + std::to_string(comm.rank())));
      return 0;
    });
  };
  const auto go_on = [&](int then, int workers, const std::string& keys) {
    return OnRanks(workers, [&](comm::Communicator& comm) {
      Learner learner(keys, comm, optimizer, OddNetwork());
      const SafetensorsReader values(folder / "rank0");
      LoadValues(values, "values", learner.network.values());
      for (nn::Parameter* p : learner.network.buffers()) values.ReadInto("buffer." + p->name, p->value);
      learner.network.MarkChanged();
      std::vector<SafetensorsReader> files;
      for (int r = 0; r < then; ++r) files.emplace_back(folder / ("optimizer" + std::to_string(r)));
      LoadOptimizerFrom(files, static_cast<size_t>(comm.rank() % then), learner.network, *learner.optimizer,
                        learner.value_share.get());
      learner.Step(Minibatch(9), 9);
      return learner.Values();
    });
  };
  for (const int then : {2, 3, 4}) {
    for (const int now : {1, 2, 4, 5}) {
      save(then, kSsgd);
      const std::vector<float> never = go_on(then, now, kSsgd)[0];
      EXPECT_EQ(go_on(then, now, DividedBy(GetParam()))[0], never) << then << " then, " << now << " now";
      save(then, DividedBy(GetParam()));
      for (const std::string& keys : {std::string(kSsgd), DividedBy(GetParam())}) {
        EXPECT_EQ(go_on(then, now, keys)[0], never) << then << " divided then, " << now << " now, " << keys;
      }
    }
  }
}

TEST_P(DividedOptimizer, EachWorkerKeepsItsPartOfTheMemory) {
  const nn::Network network = MakeNetwork();
  struct Bytes {
    size_t state = 0, copies = 0;
  };
  const auto measure = [&](const std::string& keys) {
    const auto ranks = OnRanks(4, [&](comm::Communicator& comm) {
      Learner learner(keys, comm, "type = \"adam\"\n");
      return Bytes{learner.optimizer->state_bytes(), learner.strategy->copy_bytes()};
    });
    Bytes most;
    for (const Bytes& b : ranks) most = {std::max(most.state, b.state), std::max(most.copies, b.copies)};
    return most;
  };
  const Bytes whole = measure(kSsgd), divided = measure(DividedBy(GetParam()));
  // A row and the room up to 64 bytes more for each parameter at most, twice for the two means.
  const size_t rounding = network.parameters().size() * (10 + 16) * sizeof(float);
  EXPECT_EQ(whole.state, 2 * network.num_values() * sizeof(float));
  EXPECT_LE(divided.state, whole.state / 4 + 2 * rounding);
  if (GetParam() == std::string("gradients")) {
    EXPECT_LT(divided.copies, whole.copies);
  } else {
    EXPECT_EQ(divided.copies, whole.copies);
  }
}

TEST_P(DividedOptimizer, SendsNoMoreThanTheWholeOne) {
  const auto bytes = [&](const std::string& keys) {
    const auto ranks = OnRanks(3, [&](comm::Communicator& comm) {
      Learner learner(keys, comm);
      const int64_t before = comm.bytes_sent();
      learner.Train(0, 1, comm.rank(), 3);
      return comm.bytes_sent() - before;
    });
    return ranks[0] + ranks[1] + ranks[2];
  };
  EXPECT_EQ(bytes(DividedBy(GetParam())), bytes(kSsgd));
}

// In the middle of an exchange: the others wait for the values of its rows.
TEST_P(DividedOptimizer, ALostWorkerEndsTheRunWithItsName) {
  try {
    OnRanks(3, [&](comm::Communicator& comm) {
      comm.set_deadline_seconds(2);
      Learner learner(DividedBy(GetParam()), comm);
      learner.Train(0, 2, comm.rank(), 3);
      if (comm.rank() == 1) return 0;
      learner.Train(2, 40, comm.rank(), 3);
      return 0;
    });
    FAIL() << "expected an error";
  } catch (const PeerError& e) {
    EXPECT_NE(std::string(e.what()).find("rank 1"), std::string::npos) << e.what();
  }
}

std::string RefusalOf(const std::string& keys) {
  try {
    HashesAfter(2, keys, kMomentum);
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

TEST(DividedOptimizerPlans, ThatCannotBeAreRefused) {
  EXPECT_NE(RefusalOf(DividedBy("optimizer") + "codec = {type = \"one-bit\"}\n").find("one-bit"), std::string::npos);
  EXPECT_NE(RefusalOf(DividedBy("gradients") + "accumulate = 2\n").find("accumulate = 2"), std::string::npos);
  EXPECT_NE(RefusalOf(DividedBy("weights")).find("weights"), std::string::npos);
  EXPECT_NE(RefusalOf("method = \"bmuf\"\ndivide = \"optimizer\"\n").find("divide"), std::string::npos);
}

TEST(DividedOptimizerPlans, AccumulationGoesWithADividedState) {
  const std::string keys = "accumulate = 3\n";
  EXPECT_EQ(HashesAfter(3, DividedBy("optimizer") + keys, kMomentum), HashesAfter(3, kSsgd + keys, kMomentum));
}

TEST(DividedOptimizerPlans, OneWorkerHasNothingToDivide) {
  EXPECT_EQ(HashesAfter(1, DividedBy("gradients"), kMomentum), HashesAfter(1, kSsgd, kMomentum));
}

}  // namespace
}  // namespace antiphon::parallel
