// Codecs: what every one must keep, and what each of them promises.
#include "parallel/codec.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "math/half.h"
#include "parallel/codec_samples.h"
#include "temporary_folder.h"

namespace antiphon::parallel {
namespace {

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
    sender.codec->BeginStep({0, 0, 1});
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

// Layers are encoded in the order in which messages arrive.
TEST(Int8, TheOrderOfMatricesChangesNoRounding) {
  const Matrix a = NormalMatrix(2, 300, 4), b = NormalMatrix(2, 300, 5);
  const auto codes = [&](bool turned) {
    Sender sender("type = \"int8\"\nrounding = \"stochastic\"\n", 2, 300);
    sender.codec->BeginStep({0, 1, 4});
    const Code first = sender.Encode(turned ? b : a), second = sender.Encode(turned ? a : b);
    return turned ? std::pair(second, first) : std::pair(first, second);
  };
  EXPECT_EQ(codes(false), codes(true));
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

}  // namespace
}  // namespace antiphon::parallel
