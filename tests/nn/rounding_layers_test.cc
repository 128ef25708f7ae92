// Layers whose weights are rounded, masked or tied: what they compute, what they pass back, and what a file keeps.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "nn/model.h"
#include "nn/parameter_storage.h"
#include "nn/quantize.h"
#include "random_matrix.h"
#include "temporary_folder.h"

namespace antiphon::nn {
namespace {

using testing::RandomMatrix;

Network OneLayer(const std::string& keys, int in_dim, int out_dim) {
  return Network(Config::Parse("layer = [{" + keys + "}]", "net"), in_dim, out_dim, 3);
}

Matrix Output(const Network& network, const Matrix& x) {
  Workspace ws;
  return Matrix(ConstMatrixView(network.Forward({}, x, ws)));
}

void ExpectEqual(ConstMatrixView a, ConstMatrixView b, double tolerance, const std::string& what = "") {
  ASSERT_EQ(a.rows(), b.rows());
  ASSERT_EQ(a.cols(), b.cols());
  for (int64_t r = 0; r < a.rows(); ++r) {
    for (int64_t c = 0; c < a.cols(); ++c) ASSERT_NEAR(a(r, c), b(r, c), tolerance) << what << " " << r << ", " << c;
  }
}

TEST(Quantize, IsIdempotentAndWithinHalfAStep) {
  for (const int bits : {8, 4}) {
    Matrix w = RandomMatrix(40, 33, 5);
    for (float& v : w.Row(7)) v = 0;
    w(8, 0) = 1e-30f;
    const QuantizedRows q = QuantizeRows(w, bits);
    Matrix rounded(40, 33);
    RoundToIntegers(w, bits, rounded);
    for (int64_t r = 0; r < 40; ++r) {
      for (int64_t c = 0; c < 33; ++c) {
        const int value = q.values[static_cast<size_t>(r * 33 + c)];
        EXPECT_LE(std::abs(value), LargestInteger(bits));
        EXPECT_EQ(rounded(r, c), q.scales[static_cast<size_t>(r)] * static_cast<float>(value));
        EXPECT_LE(std::abs(rounded(r, c) - w(r, c)), 0.5001f * q.scales[static_cast<size_t>(r)]);
      }
    }
    const QuantizedRows again = QuantizeRows(rounded, bits);
    EXPECT_EQ(again.values, q.values);
    EXPECT_EQ(again.scales, q.scales);
  }
}

// The byte multiply-adds of CPUs without VNNI add these up in 16 bits.
int LargestShortSum(std::span<const int8_t> row) {
  int largest = 0;
  for (size_t first = 0; first < row.size(); first += 8) {
    for (const size_t half : {0, 2}) {
      int above = 0, below = 0;
      for (const size_t i : {half, half + 1, half + 4, half + 5}) {
        const int q = first + i < row.size() ? row[first + i] : 0;
        (q > 0 ? above : below) += std::abs(q);
      }
      largest = std::max({largest, above, below});
    }
  }
  return largest;
}

TEST(Quantize, ShortSumsFitWithAsManyStepsAsTheyAllow) {
  Matrix w = RandomMatrix(60, 333, 6);
  for (int64_t r = 0; r < 20; ++r) w(r, 7 * r) = 9;  // one large weight: all 127 steps
  for (float& v : w.Row(30)) v = 1.5f;               // all as large as any
  for (float& v : w.Row(31)) v = -0.1f;
  const QuantizedRows q = QuantizeRows(w, 8);
  EXPECT_TRUE(ShortSumsFit(q));
  for (int64_t r = 0; r < 60; ++r) {
    const auto row = q.Row(r);
    const int steps = std::abs(int{*std::ranges::max_element(row, {}, [](int8_t v) { return std::abs(int{v}); })});
    EXPECT_LE(LargestShortSum(row), 128);
    if (r < 20) {
      EXPECT_GT(steps, 90) << "beside one large weight, the others of its sum count little";
    } else if (r == 30 || r == 31) {
      EXPECT_LE(steps, 32);
    } else {
      EXPECT_GT(steps, 45) << "about what seven bits have";
    }
  }
}

TEST(Quantize, KeepsIntegersThatDoNotFit) {
  Matrix w(1, 16);
  for (int64_t c = 0; c < 16; ++c) w(0, c) = 0.25f * static_cast<float>(127 - c);
  const QuantizedRows q = QuantizeRows(w, 8);
  EXPECT_EQ(q.scales[0], 0.25f);
  EXPECT_EQ(q.values[0], 127);
  EXPECT_FALSE(ShortSumsFit(q));
}

TEST(Quantize, RangesHoldZeroExactly) {
  for (const auto& [low, high] : {std::pair(-0.3f, 2.0f), std::pair(0.5f, 2.0f), std::pair(-3.0f, -1.0f)}) {
    const InputRange range = RangeFor(low, high);
    Matrix x(1, 4);
    x(0, 1) = low;
    x(0, 2) = high;
    x(0, 3) = 100 * high;
    Matrix y(1, 4);
    RoundToRange(x, range, y);
    EXPECT_EQ(y(0, 0), 0);
    EXPECT_NEAR(y(0, 1), low, 0.51f * range.scale);
    EXPECT_NEAR(y(0, 2), high, 0.51f * range.scale);
    EXPECT_LE(std::abs(y(0, 3)), 256 * range.scale);
  }
}

TEST(QuantizedAffine, ComputesWithRoundedWeightsAndInputs) {
  Network network = OneLayer("type = 'quantized-affine', dim = 5", 12, 5);
  Matrix dense(5, 12);
  RoundToIntegers(network.parameters()[0]->value, 8, dense);
  Matrix x = RandomMatrix(6, 12, 2);
  Matrix expected(6, 5);
  Gemm(Transpose::kNo, x, Transpose::kYes, dense, expected);
  ExpectEqual(Output(network, x), expected, 1e-5, "uncalibrated");
  const InputRange range = RangeFor(-2, 2.5f);
  network.buffers()[0]->value(0, 0) = range.scale;
  network.buffers()[1]->value(0, 0) = range.zero;
  Matrix rounded(6, 12);
  RoundToRange(x, range, rounded);
  Gemm(Transpose::kNo, rounded, Transpose::kYes, dense, expected);
  ExpectEqual(Output(network, x), expected, 1e-5, "calibrated");
}

// dL/dx of a straight-through layer is that of the rounded product, stopped where x is beyond what can pass.
TEST(RoundingLayers, PassDerivativesStraightThrough) {
  for (const std::string type : {"quantized-affine", "binary-affine"}) {
    const bool binary = type == "binary-affine";
    Network network = OneLayer("type = '" + type + "', dim = 5" + (binary ? ", binary-input = true" : ""), 12, 5);
    if (!binary) {
      const InputRange range = RangeFor(-1, 1);
      network.buffers()[0]->value(0, 0) = range.scale;
      network.buffers()[1]->value(0, 0) = range.zero;
    }
    Matrix x = RandomMatrix(4, 12, 2);
    x(0, 0) = 1.5f;
    x(1, 1) = -1.5f;
    Workspace ws;
    network.Forward({}, x, ws);
    const Matrix dy = RandomMatrix(4, 5, 9);
    std::vector<float> gradient(network.num_values());
    DenseGradientSink sink(gradient);
    const Matrix dx(ConstMatrixView(network.Backward({}, dy, ws, sink, true)));

    Matrix weight(5, 12);
    Matrix input(4, 12);
    if (binary) {
      RoundToSigns(network.parameters()[0]->value, weight);
      RoundToSigns(x, input);
    } else {
      RoundToIntegers(network.parameters()[0]->value, 8, weight);
      RoundToRange(x, RangeFor(-1, 1), input);
    }
    Matrix expected(4, 12);
    Gemm(Transpose::kNo, dy, Transpose::kNo, weight, expected);
    const float limit = binary ? 1.0f : 1.0f + RangeFor(-1, 1).scale;
    for (int64_t i = 0; i < x.size(); ++i) {
      if (std::abs(x.data()[i]) > limit) expected.data()[i] = 0;
    }
    ExpectEqual(dx, expected, 1e-5, type);
    Matrix dw(5, 12);
    Gemm(Transpose::kYes, dy, Transpose::kNo, input, dw);
    ExpectEqual(ConstMatrixView(gradient.data(), 5, 12), dw, 1e-5, type);
  }
}

TEST(BinaryAffine, IsTheProductOfSigns) {
  Network network = OneLayer("type = 'binary-affine', dim = 5, binary-input = true", 67, 5);  // no multiple of 64
  Parameter& w = *network.parameters()[0];
  w.value(2, 3) = 0;
  const Matrix x = RandomMatrix(6, 67, 2);
  const Matrix y = Output(network, x);
  const auto sign = [](float v) { return v < 0 ? -1 : 1; };
  for (int64_t n = 0; n < 6; ++n) {
    for (int64_t r = 0; r < 5; ++r) {
      int product = 0;
      for (int64_t c = 0; c < 67; ++c) product += sign(x(n, c)) * sign(w.value(r, c));
      EXPECT_NEAR(y(n, r), SignScale(x.Row(n)) * SignScale(w.value.Row(r)) * static_cast<float>(product), 1e-4);
    }
  }
}

TEST(BinaryAffine, KeepsLatentsWithinOne) {
  Network network = OneLayer("type = 'binary-affine', dim = 5", 12, 5);
  network.parameters()[0]->value(1, 2) = -7;
  network.MarkChanged();
  EXPECT_EQ(network.parameters()[0]->value(1, 2), -1);
}

TEST(SparseAffine, HoldsBlocksAtZeroWhateverIsWritten) {
  Network network = OneLayer("type = 'sparse-affine', dim = 6, block-rows = 3, block-cols = 4", 12, 6);
  network.buffers()[0]->value(1, 2) = 0;
  network.MarkChanged();
  for (float& v : network.values()) v = 5;
  network.MarkChanged();
  const MatrixView w = network.parameters()[0]->value;
  for (int64_t r = 0; r < 6; ++r) {
    for (int64_t c = 0; c < 12; ++c) EXPECT_EQ(w(r, c), r >= 3 && c >= 8 ? 0.0f : 5.0f) << r << ", " << c;
  }
}

TEST(CirculantAffine, IsACircularConvolutionOfBlocks) {
  constexpr int kBlock = 4;
  Network network = OneLayer("type = 'circulant-affine', dim = 6, block = 4", 12, 6);
  const Matrix x = RandomMatrix(2, 12, 2);
  const Matrix y = Output(network, x);
  const MatrixView c = network.parameters()[0]->value;
  ASSERT_EQ(c.rows(), 2);
  for (int64_t n = 0; n < 2; ++n) {
    for (int64_t r = 0; r < 6; ++r) {
      double sum = 0;
      for (int64_t j = 0; j < 3; ++j) {
        for (int64_t s = 0; s < kBlock; ++s) {
          sum += static_cast<double>(c(r / kBlock, j * kBlock + (r % kBlock - s + kBlock) % kBlock)) *
                 static_cast<double>(x(n, j * kBlock + s));
        }
      }
      EXPECT_NEAR(y(n, r), sum, 1e-5);
    }
  }
}

TEST(CirculantAffine, WithBlocksOfOneIsAffine) {
  Network circulant = OneLayer("type = 'circulant-affine', dim = 6, block = 1", 12, 6);
  Network affine = OneLayer("type = 'affine', dim = 6", 12, 6);
  std::copy(circulant.values().begin(), circulant.values().end(), affine.values().begin());
  const Matrix x = RandomMatrix(3, 12, 2);
  ExpectEqual(Output(circulant, x), Output(affine, x), 1e-6);
}

TEST(RoundingLayers, RefuseWhatCannotBe) {
  EXPECT_THROW(OneLayer("type = 'sparse-affine', dim = 6, block-rows = 4", 12, 6), UsageError);
  EXPECT_THROW(OneLayer("type = 'sparse-affine', dim = 64, block-rows = 64, block-cols = 2", 12, 64), UsageError);
  EXPECT_THROW(OneLayer("type = 'quantized-affine', dim = 6, weight-bits = 5", 12, 6), UsageError);
  EXPECT_THROW(OneLayer("type = 'circulant-affine', dim = 6, block = 5", 12, 6), UsageError);
}

constexpr char kAllKinds[] = R"(
layer = [{type = "quantized-affine", dim = 11}, {type = "quantized-affine", dim = 12, weight-bits = 4},
         {type = "sparse-affine", dim = 9}, {type = "sparse-affine", dim = 8, block-rows = 4, block-cols = 3, weight-bits = 8},
         {type = "binary-affine", dim = 8}, {type = "circulant-affine", dim = 6, block = 4}]
)";

Model AllKinds() {
  Model model;
  model.network = Network(Config::Parse(kAllKinds, "net"), 10, 6, 7);
  Rng rng(4);
  for (Parameter* p : model.network.buffers()) {
    if (p->storage != Storage::kBits) {
      p->value(0, 0) = 0.25f;
      continue;
    }
    for (int64_t i = 0; i < p->value.size(); ++i) p->value.data()[i] = rng.Uniform() < 0.3 ? 1.0f : 0.0f;
  }
  model.network.MarkChanged();
  return model;
}

TEST(ParameterStorage, RoundsOnceAndThenComesBackBitForBit) {
  const testing::TemporaryFolder folder;
  const Model model = AllKinds();
  const Matrix x = RandomMatrix(20, 10, 8);
  const Matrix y = Output(model.network, x);
  model.Save(folder / "a.safetensors");
  const Model once = Model::Load(folder / "a.safetensors");
  ExpectEqual(Output(once.network, x), y, 0, "the saved model scores as the one in memory");
  once.Save(folder / "b.safetensors");
  const Model twice = Model::Load(folder / "b.safetensors");
  EXPECT_EQ(twice.network.Hash(), once.network.Hash());
  int64_t bytes = 0;
  for (const Parameter* p : model.network.parameters()) bytes += StoredBytes(*p);
  for (const Parameter* p : model.network.buffers()) bytes += StoredBytes(*p);
  const SafetensorsReader reader(folder / "a.safetensors");
  int64_t in_file = 0;
  for (const std::string& name : reader.Names()) in_file += std::ssize(reader.Tensor(name).data);
  EXPECT_EQ(in_file, bytes);
}

TEST(ParameterStorage, RefusesATensorOfAnotherKind) {
  const testing::TemporaryFolder folder;
  Model model = AllKinds();
  model.Save(folder / "a.safetensors");
  const SafetensorsReader reader(folder / "a.safetensors");
  for (Parameter* p : model.network.parameters()) {
    if (p->storage == Storage::kFloat) continue;
    p->storage = p->storage == Storage::kInt8 ? Storage::kInt4 : Storage::kInt8;
    EXPECT_THROW(ReadParameter(reader, *p), InputError) << p->name;
  }
}

}  // namespace
}  // namespace antiphon::nn
