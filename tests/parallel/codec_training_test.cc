// Training whose gradients are sent by a codec.
#include <gtest/gtest.h>

#include <mutex>

#include "base/error.h"
#include "base/random.h"
#include "parallel/codec.h"
#include "parallel/codec_samples.h"
#include "parallel/detour.h"
#include "parallel/gradient_exchange.h"
#include "parallel/small_learner.h"
#include "temporary_folder.h"

namespace antiphon::parallel {
namespace {

TEST(Fp16, AnInfiniteSumSkipsExactlyOneStepOnAllRanks) {
  const auto results = OnRanks(3, [](comm::Communicator& comm) {
    Learner learner("method = \"ssgd\"\nrate-scaling = \"none\"\ncodec = {type = \"fp16\", scale = 1024}\n", comm,
                    "type = \"sgd\"\n", MakeRegression());
    learner.Train(0, 2, comm.rank(), 3);
    const uint64_t before = learner.network.Hash();
    // One rank's gradient exceeds what half precision holds.
    Minibatch minibatch(100 + comm.rank());
    if (comm.rank() == 1) {
      for (int64_t i = 0; i < minibatch.features.size(); ++i) minibatch.features.data()[i] *= 1e4f;
    }
    learner.Step(minibatch, 2);
    const bool skipped = learner.network.Hash() == before;
    learner.Train(3, 4, comm.rank(), 3);
    const bool went_on = learner.network.Hash() != before;
    return std::pair(skipped && went_on ? 1 : 0, learner.network.Hash());
  });
  for (const auto& [right, hash] : results) {
    EXPECT_EQ(right, 1);
    EXPECT_EQ(hash, results[0].second);
  }
}

double LossAfter(const std::string& codec, int workers, int64_t steps) {
  return OnRanks(workers, [&](comm::Communicator& comm) {
    Learner learner("method = \"ssgd\"\nrate-scaling = \"none\"\ncodec = " + codec + "\n", comm, "type = \"sgd\"\n",
                    MakeRegression());
    // A convex problem: the same two minibatches again and again.
    for (int64_t step = 0; step < steps; ++step) learner.Step(Minibatch(comm.rank()), step, 0.5);
    double loss = 0;
    for (int r = 0; r < workers; ++r) loss += learner.Step(Minibatch(r), steps, 0.0).loss.loss() / workers;
    return loss;
  })[0];
}

TEST(Codecs, TrainingReachesTheOptimumWithFeedbackAndNotWithout) {
  const double exact = LossAfter("{type = \"fp32\"}", 2, 600);
  for (const char* codec :
       {"{type = \"one-bit\"}", "{type = \"int8\"}", "{type = \"bf16\", feedback = true}",
        "{type = \"top-k\", density = 0.1}", "{type = \"fp16\"}", "{type = \"threshold\", threshold = 0.1}"}) {
    EXPECT_LT(LossAfter(codec, 2, 600), exact + 0.02) << codec;
  }
  EXPECT_GT(LossAfter("{type = \"one-bit\", feedback = false}", 2, 600), exact + 0.04);
}

TEST(TopK, RefusesMomentumBesideThatOfTheOptimizer) {
  const auto comm = comm::MakeSelfCommunicator();
  const std::string keys = "method = \"ssgd\"\ncodec = {type = \"top-k\", momentum = 0.9}\n";
  try {
    Learner learner(keys, *comm, "type = \"sgd\"\nmomentum = 0.5\n");
    ADD_FAILURE() << "taken";
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("set optimizer.momentum = 0"), std::string::npos) << e.what();
  }
  EXPECT_NO_THROW(Learner(keys, *comm, "type = \"sgd\"\n"));
  EXPECT_NO_THROW(Learner("method = \"ssgd\"\ncodec = {type = \"top-k\"}\n", *comm));
}

// Epochs are those of the data, however many minibatches make a step.
TEST(Codecs, EpochsOfStartAndRampCountMinibatches) {
  const auto bytes = [](const std::string& keys, int accumulate, int64_t minibatches) {
    return OnRanks(2, [&](comm::Communicator& comm) {
      Learner learner("method = \"ssgd\"\naccumulate = " + std::to_string(accumulate) + "\n" + keys, comm,
                      "type = \"sgd\"\n");
      std::vector<int64_t> sent;
      for (int64_t m = 0; m < minibatches; m += accumulate) {
        const int64_t before = comm.bytes_sent();
        learner.Train(m, m + accumulate, comm.rank(), 2);
        sent.push_back(comm.bytes_sent() - before);
      }
      return sent;
    })[0];
  };
  // An epoch has 100 minibatches: the codec begins with the 20th.
  const auto started = bytes("codec = {type = \"one-bit\"}\ncodec-start-epochs = 0.2\n", 4, 32);
  EXPECT_EQ(started[4], started[0]);
  EXPECT_LT(started[5], started[0]);
  // The density falls from 0.25 to 0.05 within 40 minibatches.
  const auto ramped = bytes("codec = {type = \"top-k\", density = 0.05, ramp-epochs = 0.4}\n", 10, 60);
  EXPECT_LT(ramped[4], ramped[0] * 6 / 10);
  EXPECT_GT(ramped[2], ramped[4]);
}

TEST(Codecs, FullDensityEqualsSynchronousSgd) {
  const auto train = [](const std::string& codec) {
    return OnRanks(3, [&](comm::Communicator& comm) {
      Learner learner("method = \"ssgd\"\n" + codec, comm);
      learner.Train(0, 8, comm.rank(), 3);
      return learner.network.Hash();
    });
  };
  EXPECT_EQ(train("codec = {type = \"top-k\", density = 1}\n"), train(""));
}

TEST(Codecs, ReplicasContinueBitForBit) {
  for (const std::string& toml : WithFeedback()) {
    std::string codec = toml;
    std::replace(codec.begin(), codec.end() - 1, '\n', ',');
    const std::string keys = "method = \"ssgd\"\ncodec = {" + codec.substr(0, codec.size() - 1) + "}\n";
    const testing::TemporaryFolder folder;
    const auto run = [&](bool whole) {
      return OnRanks(3, [&](comm::Communicator& comm) {
        const auto file = folder / ("rank" + std::to_string(comm.rank()));
        Learner learner(keys, comm);
        if (whole) {
          learner.Train(0, 5, comm.rank(), 3);
          learner.Save(file);
        } else {
          learner.Load(file);
        }
        learner.Train(5, 10, comm.rank(), 3);
        return learner.End();
      });
    };
    const auto whole = run(true);
    EXPECT_EQ(run(false), whole) << keys;
    EXPECT_EQ(whole[1], whole[0]) << keys;
  }
}

TEST(Codecs, FallingBackForgetsWhatWasHeldBack) {
  const std::string keys = "method = \"ssgd\"\nrate-scaling = \"none\"\ncodec = {type = \"one-bit\"}\n";
  for (const auto& [direct, detour] : DirectAndAfterADetour(keys)) EXPECT_EQ(detour, direct);
}

// Both stages of the exchange: what all gave is what the steps got, what ranks hold back of their gradients, and what
// they hold back of the sums that they make.
TEST(Codecs, BothStagesAddUpToWhatAllGave) {
  constexpr int kRanks = 3;
  constexpr int kSteps = 12;
  for (const std::string& toml : WithFeedback()) {
    SCOPED_TRACE(toml);
    std::mutex mutex;
    std::vector<double> given, held;
    std::vector<float> got;
    comm::RunRanks(kRanks, [&](comm::Communicator& comm) {
      nn::Network network(Config::Parse("[[layer]]\ntype = \"linear\"\n", "net"), 19, 11, 3);
      const auto optimizer = optim::MakeOptimizer(Config::Parse("type = \"sgd\"\n", "opt"), network);
      GradientExchange exchange(Config::Parse(toml, "codec"), {}, {&network, optimizer.get(), &comm, {}, nullptr});
      nn::Parameter& weight = *network.parameters()[0];
      const auto size = static_cast<size_t>(weight.value.size());
      std::vector<double> mine(size, 0.0);
      std::vector<float> sum(size, 0.0f);
      for (uint64_t step = 0; step < kSteps; ++step) {
        const Matrix g =
            NormalMatrix(weight.value.rows(), weight.value.cols(), 100 * step + static_cast<uint64_t>(comm.rank()));
        exchange.BeginMinibatch(1);
        exchange.TakeDense(weight, g);
        exchange.LayerDone(0);
        ASSERT_TRUE(exchange.Finish());
        for (size_t i = 0; i < size; ++i) {
          mine[i] += g.data()[i];
          sum[i] += exchange.gradient()[i];
        }
      }
      const testing::TemporaryFolder folder;
      SafetensorsWriter writer;
      exchange.SaveState(writer, "x");
      writer.Write(folder / "state.safetensors");
      const SafetensorsReader reader(folder / "state.safetensors");
      const std::lock_guard lock(mutex);
      given.resize(size);
      held.resize(size);
      for (const std::string name : {"x.memory0", "x.sum-memory0"}) {
        if (!reader.Has(name)) continue;  // sums of sparse gradients travel as they are
        const std::vector<float> values = reader.ReadFloats(name);
        for (size_t i = 0; i < size; ++i) held[i] += values[i];
      }
      for (size_t i = 0; i < size; ++i) given[i] += mine[i];
      if (!got.empty()) {
        EXPECT_EQ(sum, got) << "ranks took different steps";
      }
      got = sum;
    });
    for (size_t i = 0; i < given.size(); ++i) ASSERT_NEAR(got[i] + held[i], given[i], 1e-3) << i;
  }
}

// All ranks but one have the same gradient, whose largest value the last one takes away again: the sum is of the size
// of a rounding error, and is sent almost exactly. Errors that are independent add up by their squares, the same ones
// by their values.
TEST(Codecs, RandomRoundingOfAnExchangeIsEachRanksOwn) {
  constexpr int kRanks = 6;
  constexpr int kAlike = kRanks - 1;
  constexpr float kLargest = 127;  // so that a step of the integers is 1
  const auto results = OnRanks(kRanks, [&](comm::Communicator& comm) {
    nn::Network network(Config::Parse("[[layer]]\ntype = \"linear\"\n", "net"), 64, 64, 3);
    const auto optimizer = optim::MakeOptimizer(Config::Parse("type = \"sgd\"\n", "opt"), network);
    GradientExchange exchange(Config::Parse("type = \"int8\"\nrounding = \"stochastic\"\n", "codec"), {},
                              {&network, optimizer.get(), &comm, {}, nullptr});
    nn::Parameter& weight = *network.parameters()[0];
    const bool alike = comm.rank() < kAlike;
    Matrix g(weight.value.rows(), weight.value.cols());
    Rng rng(17);
    for (int64_t i = 0; i < g.size(); ++i) g.data()[i] = alike ? static_cast<float>(rng.Uniform()) : 0.0f;
    const Matrix values = g;
    for (int64_t r = 0; r < g.rows(); ++r) g(r, 0) = alike ? kLargest : -kAlike * kLargest;
    exchange.BeginMinibatch(1);
    exchange.TakeDense(weight, g);
    exchange.LayerDone(0);
    EXPECT_TRUE(exchange.Finish());
    double square = 0;
    for (int64_t r = 0; r < g.rows(); ++r) {
      for (int64_t c = 1; c < g.cols(); ++c) {
        const auto sum = static_cast<double>(exchange.gradient()[static_cast<size_t>(r * g.cols() + c)]);
        const double error = sum - kAlike * static_cast<double>(values(r, c));
        square += error * error / static_cast<double>(g.rows() * (g.cols() - 1));
      }
    }
    return square;
  });
  // Up with probability f, down with 1 − f: the square is f (1 − f), of all f 1/6.
  EXPECT_NEAR(results[0], kAlike / 6.0, 0.1 * kAlike / 6.0);
}

TEST(Codecs, SendFewerBytes) {
  const auto bytes = [](const std::string& codec) {
    return OnRanks(2, [&](comm::Communicator& comm) {
      Learner learner("method = \"ssgd\"\ncodec = {type = \"" + codec + "\"}\n", comm, "type = \"sgd\"\n",
                      {Config::Parse("[[layer]]\ntype = \"affine\"\ndim = 512\n[[layer]]\ntype = \"affine\"\n", "net"),
                       kFeatures, kPdfs, 3});
      const int64_t before = comm.bytes_sent();
      learner.Train(0, 1, comm.rank(), 2);
      return comm.bytes_sent() - before;
    })[0];
  };
  const int64_t exact = bytes("fp32");
  EXPECT_LT(bytes("bf16"), exact * 6 / 10);
  EXPECT_LT(bytes("int8"), exact * 9 / 10);  // rows of seven values, each with a scale
  EXPECT_LT(bytes("one-bit"), exact * 3 / 10);
}

}  // namespace
}  // namespace antiphon::parallel
