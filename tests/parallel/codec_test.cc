// Codecs: what every one must keep, and what each of them promises.
#include "parallel/codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "base/error.h"
#include "math/half.h"
#include "parallel/gradient_exchange.h"
#include "parallel/small_learner.h"
#include "temporary_folder.h"

namespace antiphon::parallel {
namespace {

Matrix NormalMatrix(int64_t rows, int64_t cols, uint64_t seed, double scale = 1) {
  Matrix m(rows, cols);
  Rng rng(5, seed);
  for (int64_t i = 0; i < m.size(); ++i) m.data()[i] = static_cast<float>(scale * rng.Normal());
  return m;
}

// A codec with its memory, for one matrix.
struct Sender {
  Sender(const std::string& toml, int64_t rows, int64_t cols) : codec(MakeCodec(Config::Parse(toml, "codec"))) {
    for (int k = 0; k < codec->num_planes(); ++k) {
      planes.emplace_back(rows, cols);
      planes.back().SetZero();
    }
    codec->BeginStep({100, 0, 1});
  }
  Code Encode(ConstMatrixView gradient) {
    std::vector<MatrixView> memory(planes.begin(), planes.end());
    Code code;
    codec->Encode(gradient, memory, code);
    return code;
  }
  Matrix Send(ConstMatrixView gradient) {
    const Code code = Encode(gradient);
    Matrix decoded(gradient.rows(), gradient.cols());
    EXPECT_EQ(codec->Decode(code, decoded), code.size());
    return decoded;
  }
  std::unique_ptr<Codec> codec;
  std::vector<Matrix> planes;
};

const std::vector<std::string>& WithFeedback() {
  static const std::vector<std::string> tomls = {"type = \"one-bit\"\n", "type = \"threshold\"\nthreshold = 0.5\n",
                                                 "type = \"top-k\"\ndensity = 0.1\n", "type = \"int8\"\n",
                                                 "type = \"bf16\"\nfeedback = true\n"};
  return tomls;
}

class CodecConformance : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Registered, CodecConformance, ::testing::ValuesIn(CodecRegistry::Get().Names()),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(CodecConformance, TakesAnyShapeAndTheSameBytesTwice) {
  const std::string toml = "type = \"" + GetParam() + "\"\n";
  for (const auto& [rows, cols] :
       {std::pair(1, 1), std::pair(3, 70), std::pair(300, 64), std::pair(5, 257), std::pair(0, 4), std::pair(4, 0)}) {
    const Matrix g = NormalMatrix(rows, cols, 1, 1e-3);
    Sender a(toml, rows, cols);
    Sender b(toml, rows, cols);
    EXPECT_EQ(a.Encode(g), b.Encode(g)) << rows << " × " << cols;
    const Matrix decoded = a.Send(g);
    for (int64_t i = 0; i < decoded.size(); ++i) EXPECT_TRUE(std::isfinite(decoded.data()[i]));
  }
}

TEST_P(CodecConformance, NothingComesOutOfNothing) {
  Sender sender("type = \"" + GetParam() + "\"\n", 9, 66);
  Matrix zero(9, 66);
  zero.SetZero();
  const Matrix decoded = sender.Send(zero);
  for (int64_t i = 0; i < decoded.size(); ++i) EXPECT_EQ(decoded.data()[i], 0.0f);
}

TEST_P(CodecConformance, RefusesACodeCutShort) {
  Sender sender("type = \"" + GetParam() + "\"\n", 40, 70);
  Code code = sender.Encode(NormalMatrix(40, 70, 2));
  if (code.size() < 8) GTEST_SKIP() << "nothing sent";
  code.resize(code.size() - 1);
  Matrix decoded(40, 70);
  EXPECT_THROW(sender.codec->Decode(code, decoded), InputError);
}

TEST(Codecs, WhatIsSentAndWhatIsHeldAddUpToWhatWasGiven) {
  for (const std::string& toml : WithFeedback()) {
    Sender sender(toml, 37, 130);
    Matrix given(37, 130), sent(37, 130);
    given.SetZero();
    sent.SetZero();
    for (uint64_t step = 0; step < 30; ++step) {
      const Matrix g = NormalMatrix(37, 130, step);
      const Matrix d = sender.Send(g);
      for (int64_t i = 0; i < g.size(); ++i) {
        given.data()[i] += g.data()[i];
        sent.data()[i] += d.data()[i];
      }
    }
    for (int64_t i = 0; i < given.size(); ++i) {
      ASSERT_NEAR(sent.data()[i] + sender.planes[0].data()[i], given.data()[i], 1e-4) << toml;
    }
  }
}

TEST(OneBit, RemaindersOfAColumnAddUpToNothing) {
  for (const std::string toml : {"type = \"one-bit\"\n", "type = \"one-bit\"\nthreshold = \"mean\"\n"}) {
    Sender sender(toml, 500, 77);
    for (uint64_t step = 0; step < 5; ++step) sender.Send(NormalMatrix(500, 77, step));
    for (int64_t c = 0; c < 77; ++c) {
      double sum = 0;
      for (int64_t r = 0; r < 500; ++r) sum += static_cast<double>(sender.planes[0](r, c));
      EXPECT_NEAR(sum, 0, 1e-3) << c << " " << toml;
    }
  }
}

// Where all values of a column have one sign, one bit at zero gives nothing but their mean.
TEST(OneBit, CutAtItsMeanAColumnOfOneSignKeepsItsDifferences) {
  Matrix g = NormalMatrix(400, 9, 1);
  for (int64_t i = 0; i < g.size(); ++i) g.data()[i] += 10.0f;
  const auto squared_error = [&](const std::string& toml) {
    Sender sender(toml, 400, 9);
    const Matrix d = sender.Send(g);
    double sum = 0;
    for (int64_t i = 0; i < g.size(); ++i) {
      const double difference = static_cast<double>(d.data()[i]) - static_cast<double>(g.data()[i]);
      sum += difference * difference;
    }
    return sum;
  };
  // Of a normal distribution, two means leave 1 − 2/π of the variance.
  EXPECT_LT(squared_error("type = \"one-bit\"\nthreshold = \"mean\"\n"), 0.5 * squared_error("type = \"one-bit\"\n"));
}

TEST(OneBit, TakesABitPerValueAndTwoValuesPerColumn) {
  Sender sender("type = \"one-bit\"\n", 512, 128);
  EXPECT_EQ(sender.Encode(NormalMatrix(512, 128, 1)).size(), 512u * 128 / 8 + 8 * 128);
}

TEST(TopK, SendsTheLargestAndNoMoreThanItsShare) {
  Sender sender("type = \"top-k\"\ndensity = 0.02\n", 200, 300);
  const Matrix g = NormalMatrix(200, 300, 3);
  const Matrix sent = sender.Send(g);
  int64_t count = 0;
  float smallest_sent = INFINITY, largest_held = 0;
  for (int64_t i = 0; i < g.size(); ++i) {
    if (sent.data()[i] != 0) {
      ++count;
      EXPECT_EQ(sent.data()[i], g.data()[i]);
      smallest_sent = std::min(smallest_sent, std::abs(g.data()[i]));
    } else {
      largest_held = std::max(largest_held, std::abs(g.data()[i]));
    }
  }
  EXPECT_EQ(count, 1200);
  EXPECT_GE(smallest_sent, largest_held);
}

TEST(TopK, WithEverythingSentMomentumCorrectionIsMomentum) {
  Sender corrected("type = \"top-k\"\ndensity = 1\nmomentum = 0.9\nmask-momentum = false\n", 6, 10);
  Sender masked("type = \"top-k\"\ndensity = 1\nmomentum = 0.9\n", 6, 10);
  Matrix u(6, 10);
  u.SetZero();
  for (uint64_t step = 0; step < 8; ++step) {
    const Matrix g = NormalMatrix(6, 10, step);
    const Matrix with_momentum = corrected.Send(g);
    const Matrix without = masked.Send(g);
    for (int64_t i = 0; i < g.size(); ++i) {
      u.data()[i] = 0.9f * u.data()[i] + g.data()[i];
      EXPECT_EQ(with_momentum.data()[i], u.data()[i]);
      EXPECT_EQ(without.data()[i], g.data()[i]);
    }
  }
  // What waits gathers momentum: a value that is never the largest grows as the sum of its velocities.
  Sender waiting("type = \"top-k\"\ndensity = 0.01\nmomentum = 0.5\n", 1, 100);
  Matrix g(1, 100);
  g.SetZero();
  g(0, 0) = 100;
  g(0, 1) = 1;
  for (int step = 0; step < 3; ++step) waiting.Send(g);
  EXPECT_FLOAT_EQ(waiting.planes[0](0, 1), 1 + 1.5f + 1.75f);
}

TEST(TopK, DensityFallsOverTheRamp) {
  Sender sender("type = \"top-k\"\ndensity = 0.01\nramp-epochs = 2\n", 100, 100);
  const auto count = [&](double epoch) {
    sender.codec->BeginStep({epoch, 0, 4});
    return (sender.Encode(NormalMatrix(100, 100, 9)).size() - 4) / 8;
  };
  EXPECT_EQ(count(0), 2500u);
  EXPECT_NEAR(static_cast<double>(count(1)), 500, 1);
  EXPECT_EQ(count(2), 100u);
}

TEST(Int8, RandomRoundingIsRightOnTheMean) {
  Sender sender("type = \"int8\"\nrounding = \"stochastic\"\n", 1, 256);
  const Matrix g = NormalMatrix(1, 256, 4);
  Matrix sum(1, 256);
  sum.SetZero();
  constexpr int kTimes = 2000;
  for (int k = 0; k < kTimes; ++k) {
    const Matrix sent = sender.Send(g);
    for (int64_t i = 0; i < g.size(); ++i) sum.data()[i] += sent.data()[i] / kTimes;
  }
  for (int64_t i = 0; i < g.size(); ++i)
    EXPECT_NEAR(sum.data()[i], g.data()[i], 4 * 0.025 * 0.5 / std::sqrt(kTimes) * 3);
}

// Otherwise the errors of workers whose gradients are alike would add up to as much as one of them makes.
TEST(Int8, RanksRoundByNumbersOfTheirOwn) {
  const Matrix g = NormalMatrix(1, 256, 4);
  constexpr int kRanks = 16;
  std::vector<double> mean_error(256, 0.0);
  double of_one = 0, of_mean = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    Sender sender("type = \"int8\"\nrounding = \"stochastic\"\n", 1, 256);
    sender.codec->BeginStep({0, rank, kRanks});
    const Matrix sent = sender.Send(g);
    for (size_t i = 0; i < mean_error.size(); ++i) {
      const double error = static_cast<double>(sent.data()[i]) - static_cast<double>(g.data()[i]);
      mean_error[i] += error / kRanks;
      of_one += error * error / kRanks;
    }
  }
  for (const double error : mean_error) of_mean += error * error;
  EXPECT_NEAR(of_mean, of_one / kRanks, 0.3 * of_one / kRanks);
}

TEST(Int8, GoesOnWithTheNumbersOfItsRank) {
  const testing::TemporaryFolder folder;
  const Matrix g = NormalMatrix(2, 300, 4);
  const std::string toml = "type = \"int8\"\nrounding = \"stochastic\"\n";
  Sender whole(toml, 2, 300);
  whole.codec->BeginStep({0, 3, 4});
  whole.Encode(g);
  SafetensorsWriter writer;
  whole.codec->SaveState(writer, "codec");
  writer.Write(folder / "state.safetensors");
  Sender continued(toml, 2, 300);
  continued.codec->LoadState(SafetensorsReader(folder / "state.safetensors"), "codec");
  for (Sender* sender : {&whole, &continued}) sender->codec->BeginStep({0, 3, 4});
  EXPECT_EQ(continued.Encode(g), whole.Encode(g));
}

TEST(Fp16, RoundsAsTheStandardSays) {
  EXPECT_EQ(ToHalf(1.0f), 0x3c00);
  EXPECT_EQ(ToHalf(-2.5f), 0xc100);
  EXPECT_EQ(ToHalf(65504.0f), 0x7bff);
  EXPECT_EQ(ToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(ToHalf(INFINITY), 0x7c00);
  EXPECT_EQ(ToHalf(NAN), 0x7e00);
  EXPECT_EQ(ToHalf(std::ldexp(1.0f, -24)), 0x0001);
  EXPECT_EQ(ToHalf(std::ldexp(1.0f, -26)), 0x0000);
  EXPECT_EQ(ToHalf(1.0f + std::ldexp(1.0f, -11)), 0x3c00);      // tie to even
  EXPECT_EQ(ToHalf(1.0f + 3 * std::ldexp(1.0f, -11)), 0x3c02);  // tie to even
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const float value = FromHalf(static_cast<uint16_t>(h));
    if (std::isnan(value)) continue;
    EXPECT_EQ(ToHalf(value), h);
  }
}

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
      GradientExchange exchange(Config::Parse(toml, "codec"), 0, 1, {&network, optimizer.get(), &comm, {}, nullptr});
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
