#include "kernels/dense_tile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/random.h"
#include "kernels/dense_epilogue.h"
#include "kernels/gather_dot.h"
#include "kernels/isa_variants.h"
#include "math/bf16.h"

namespace antiphon {
namespace {

using ::antiphon::testing::SupportedVariants;

// One tile of every kind of kernel, and more than a tile of the widest.
constexpr int kRows[] = {1, 2, 3, 4, 5, 6, 7, 12, 13, 16, 17, 25, 32, 33, 50};

struct Panel {
  Panel(int its_rows, int64_t its_groups) : rows(its_rows), groups(its_groups) {
    bytes = static_cast<char*>(std::aligned_alloc(64, static_cast<size_t>(groups * 4 * kPanelOutputs + 8192)));
  }
  ~Panel() { std::free(bytes); }
  Panel(const Panel&) = delete;
  // `bytes` holds whole groups of 64 outputs; the kernel gets them in its strips.
  std::vector<int32_t> Run(DenseTileOp::Function function, const DenseTileShape& shape) const {
    Panel placed(rows, groups);
    for (int64_t g = 0; g < groups; ++g) {
      for (int64_t o = 0; o < kPanelOutputs; ++o) {
        const int64_t at = PlaceInPanel(DataType::kInt8, shape.strip, groups, o, 4 * g);
        std::memcpy(placed.bytes + at, bytes + (g * kPanelOutputs + o) * 4, 4);
      }
    }
    std::vector<int32_t> out(static_cast<size_t>(rows * kPanelOutputs + 1), 77);
    function({.input = input.data(),
              .input_stride = groups * 4 + 4,
              .rows = rows,
              .panel = placed.bytes,
              .groups = groups,
              .out = out.data()});
    EXPECT_EQ(out.back(), 77);
    // What is fetched meanwhile changes nothing, wherever it ends.
    std::vector<int32_t> again(out.size(), 77);
    function({.input = input.data(),
              .input_stride = groups * 4 + 4,
              .rows = rows,
              .panel = placed.bytes,
              .groups = groups,
              .out = again.data(),
              .panel_in_cache = true,
              .next = bytes,
              .next_bytes = groups * 4 * kPanelOutputs - 7});
    EXPECT_EQ(std::memcmp(again.data(), out.data(), out.size() * sizeof(int32_t)), 0);
    out.pop_back();
    return out;
  }
  int rows;
  int64_t groups;
  char* bytes;
  std::vector<char> input = std::vector<char>(static_cast<size_t>(rows * (groups * 4 + 4)));
};

TEST(DenseTile, GivesTheSameInt8SumsOnEveryInstructionSet) {
  const auto variants = SupportedVariants<DenseTileOp>(DataType::kInt8);
  ASSERT_GE(variants.size(), 2U);
  ASSERT_EQ(variants.front().variant, "portable");
  Rng rng(1);
  for (const int rows : kRows) {
    for (const int64_t groups : {0, 1, 2, 3, 16, 33, 512}) {
      for (const bool extremes : {false, true}) {
        Panel panel(rows, groups);
        for (char& x : panel.input) x = static_cast<char>(extremes ? 255 : rng.Below(256));
        for (int64_t i = 0; i < groups * 4 * kPanelOutputs; ++i) {
          const int w = extremes ? (i / 4 % 2 == 0 ? 127 : -127) : static_cast<int>(rng.Below(255)) - 127;
          panel.bytes[i] = static_cast<char>(w);
        }
        const auto expected = panel.Run(variants.front().function, {});
        if (extremes && groups > 0) {
          EXPECT_EQ(expected[0], 255 * 127 * 4 * groups);
          EXPECT_EQ(expected[1], -255 * 127 * 4 * groups);
        }
        for (const auto& variant : variants) {
          EXPECT_EQ(panel.Run(variant.function, DenseTileShapeOf(DataType::kInt8, variant.variant)), expected)
              << variant.variant << " " << rows << " " << groups;
        }
      }
    }
  }
}

// Weights whose short sums reach their limit, at the places where the instructions add them up.
void FillWithShortSums(Rng& rng, bool extremes, Panel& panel) {
  std::memset(panel.bytes, 0, static_cast<size_t>(panel.groups * 4 * kPanelOutputs));
  for (int64_t o = 0; o < kPanelOutputs; ++o) {
    for (int64_t g = 0; g < panel.groups; g += 2) {
      for (int64_t half = 0; half < 2; ++half) {
        int above = kMostShortSum, below = kMostShortSum;
        for (int64_t i = 0; i < 4 && g + i / 2 < panel.groups; ++i) {
          const bool negative = extremes ? o % 2 == 1 : rng.Below(2) == 1;
          int& left = negative ? below : above;
          const int size = std::min(127, extremes && i % 2 == o / 2 % 2
                                             ? left
                                             : static_cast<int>(rng.Below(static_cast<uint64_t>(left) + 1)));
          left -= size;
          panel.bytes[((g + i / 2) * kPanelOutputs + o) * 4 + half * 2 + i % 2] =
              static_cast<char>(negative ? -size : size);
        }
      }
    }
  }
}

TEST(ShortSumTile, GivesTheReferencesSumsUpToTheLimit) {
  const auto reference = SupportedVariants<DenseTileOp>(DataType::kInt8).front().function;
  Rng rng(1);
  for (const auto& variant : SupportedVariants<ShortSumTileOp>(DataType::kInt8)) {
    for (const int rows : {1, 2, 3, 4, 5, 8, 9, 33, 48}) {
      for (const int64_t groups : {0, 1, 2, 3, 16, 33, 512}) {
        for (const bool extremes : {false, true}) {
          Panel panel(rows, groups);
          for (char& x : panel.input) x = static_cast<char>(extremes ? 255 : rng.Below(256));
          FillWithShortSums(rng, extremes, panel);
          EXPECT_EQ(panel.Run(variant.function, ShortSumTileShapeOf(variant.variant)), panel.Run(reference, {}))
              << variant.variant << " " << rows << " " << groups;
        }
      }
    }
  }
}

TEST(DenseTile, AgreesWithTheReferenceInFloat) {
  Rng rng(2);
  for (const DataType type : {DataType::kFloat32, DataType::kBf16}) {
    const auto variants = SupportedVariants<DenseTileOp>(type);
    ASSERT_GE(variants.size(), 2U);
    for (const int rows : kRows) {
      for (const int64_t groups : {0, 1, 5, 16, 300}) {
        Panel panel(rows, groups);
        const auto fill = [&](char* to, size_t bytes) {
          for (size_t i = 0; i + 4 <= bytes; i += 4) {
            const auto a = static_cast<float>(rng.Normal()), b = static_cast<float>(rng.Normal());
            const Bf16 pair[2] = {ToBf16(a), ToBf16(b)};
            if (type == DataType::kBf16) std::memcpy(to + i, pair, 4);
            if (type == DataType::kFloat32) std::memcpy(to + i, &a, 4);
          }
        };
        fill(panel.input.data(), panel.input.size());
        fill(panel.bytes, static_cast<size_t>(groups * 4 * kPanelOutputs));
        const auto expected = panel.Run(variants.front().function, {});
        for (const auto& variant : variants) {
          const auto found = panel.Run(variant.function, DenseTileShapeOf(type, variant.variant));
          for (size_t i = 0; i < found.size(); ++i) {
            EXPECT_NEAR(std::bit_cast<float>(found[i]), std::bit_cast<float>(expected[i]), 2e-4) << variant.variant;
          }
          // A frame's bits do not depend on how many go with it.
          Panel one(1, groups);
          std::memcpy(one.bytes, panel.bytes, static_cast<size_t>(groups * 4 * kPanelOutputs));
          one.input.assign(panel.input.end() - (groups * 4 + 4), panel.input.end());
          const auto alone = one.Run(variant.function, DenseTileShapeOf(type, variant.variant));
          EXPECT_EQ(std::memcmp(alone.data(), found.data() + (rows - 1) * kPanelOutputs, 4 * kPanelOutputs), 0)
              << variant.variant;
        }
      }
    }
  }
}

class DenseEpilogueTest : public ::testing::Test {
 protected:
  DenseEpilogueTest() {
    Rng rng(3);
    for (size_t i = 0; i < 3 * 64; ++i) {
      sums[i] = static_cast<int32_t>(rng.Below(1 << 20)) - (1 << 19);
      floats[i] = static_cast<float>(5 * rng.Normal());
    }
    floats[5] = NAN;
    floats[6] = 1000;
    floats[7] = -1000;
    for (size_t i = 0; i < 64; ++i) {
      scale[i] = static_cast<float>(0.001 + 0.0001 * rng.Uniform());
      bias[i] = static_cast<float>(rng.Normal());
      col_sum[i] = static_cast<int32_t>(rng.Below(2000)) - 1000;
    }
  }
  int32_t sums[3 * 64];
  float floats[3 * 64];
  float scale[64], bias[64];
  int32_t col_sum[64];
  float row_scale[3] = {0.01F, 0.02F, 0.5F};
  int32_t row_zero[3] = {0, 128, 7};
};

TEST_F(DenseEpilogueTest, GivesTheSameBitsOnEveryInstructionSet) {
  for (const DataType type : {DataType::kInt8, DataType::kFloat32}) {
    const auto variants = SupportedVariants<DenseEpilogueOp>(type);
    ASSERT_GE(variants.size(), 2U);
    for (const Activation activation :
         {Activation::kNone, Activation::kRelu, Activation::kSigmoid, Activation::kTanh}) {
      for (const DataType out_type : {DataType::kFloat32, DataType::kBf16, DataType::kInt8}) {
        for (const int64_t cols : {64, 1, 37}) {
          const float* const factors[] = {nullptr, scale, bias};
          std::vector<std::vector<uint8_t>> results;
          for (const auto& variant : variants) {
            results.emplace_back(3 * 256, 0xab);
            DenseEpilogueArgs args;
            args.sums = type == DataType::kInt8 ? static_cast<void*>(sums) : floats;
            args.rows = 3;
            args.cols = cols;
            args.row_scale = row_scale;
            args.row_zero = row_zero;
            args.col_scale = scale;
            args.col_sum = col_sum;
            args.bias = bias;
            args.activation = activation;
            args.row_factors = cols == 37 ? nullptr : factors;
            args.out_type = out_type;
            args.out = results.back().data();
            args.out_stride = 256;
            args.out_scale = 100.0F;
            args.out_zero = 50.0F;
            variant.function(args);
            EXPECT_EQ(results.back(), results.front()) << variant.variant << " " << static_cast<int>(activation);
          }
        }
      }
    }
  }
}

TEST_F(DenseEpilogueTest, ComputesWhatItSays) {
  const auto run = [&](DataType type, Activation activation) {
    std::vector<float> out(3 * 64);
    DenseEpilogueArgs args;
    args.sums = type == DataType::kInt8 ? static_cast<void*>(sums) : floats;
    args.rows = 3;
    args.cols = 64;
    args.row_scale = row_scale;
    args.row_zero = row_zero;
    args.col_scale = scale;
    args.col_sum = col_sum;
    args.bias = bias;
    args.activation = activation;
    args.out = out.data();
    args.out_stride = 256;
    IsaKernel<DenseEpilogueOp>(type, BestIsa()).function(args);
    return out;
  };
  const auto linear = run(DataType::kInt8, Activation::kNone), sigmoid = run(DataType::kFloat32, Activation::kSigmoid),
             tanh = run(DataType::kFloat32, Activation::kTanh);
  for (size_t i = 0; i < 3 * 64; ++i) {
    const double y = double{row_scale[i / 64]} * scale[i % 64] * (sums[i] - row_zero[i / 64] * col_sum[i % 64]);
    EXPECT_NEAR(linear[i], y + bias[i % 64], 1e-5 * (1 + std::abs(y)));
    const double x = double{floats[i]} + double{bias[i % 64]};
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(sigmoid[i]) && std::isnan(tanh[i]));
      continue;
    }
    EXPECT_NEAR(sigmoid[i], 1 / (1 + std::exp(-x)), 3e-7);
    EXPECT_NEAR(tanh[i], std::tanh(x), 6e-7);
  }
}

TEST_F(DenseEpilogueTest, MultipliesRowsByTheirFactorsBehindTheActivation) {
  // Those of columns 64 … of the layer.
  std::vector<float> anna(128, 1e9F), ben(128, 1e9F);
  for (size_t i = 0; i < 64; ++i) {
    anna[64 + i] = 0.25F * static_cast<float>(i);
    ben[64 + i] = 2.0F - 0.01F * static_cast<float>(i);
  }
  std::vector<float> plain(3 * 64), changed(3 * 64);
  DenseEpilogueArgs args;
  args.sums = floats;
  args.rows = 3;
  args.cols = 64;
  args.bias = bias;
  args.activation = Activation::kSigmoid;
  args.out = plain.data();
  args.out_stride = 256;
  for (const auto& variant : SupportedVariants<DenseEpilogueOp>(DataType::kFloat32)) {
    args.row_factors = nullptr;
    args.out = plain.data();
    variant.function(args);
    const float *const a = anna.data(), *const b = ben.data();
    for (const std::array<const float*, 3>& factors :
         {std::array{a, a, a}, {a, nullptr, a}, {a, a, b}, {nullptr, b, a}, {a, b, nullptr}}) {
      args.row_factors = factors.data();
      args.first_factor = 64;
      args.out = changed.data();
      variant.function(args);
      for (size_t i = 0; i < 3 * 64; ++i) {
        if (std::isnan(plain[i])) continue;
        const float* const own = factors[i / 64];
        EXPECT_EQ(changed[i], own == nullptr ? plain[i] : plain[i] * own[64 + i % 64]) << variant.variant << ' ' << i;
      }
    }
  }
}

TEST(QuantizeRow, RoundsTheSameWayEverywhere) {
  Rng rng(4);
  for (const int64_t count : {0, 1, 15, 16, 17, 100}) {
    std::vector<float> x(static_cast<size_t>(count));
    for (float& v : x) v = static_cast<float>(rng.Normal());
    if (count > 2) x[1] = 0.5F, x[2] = 1.5F;
    std::vector<std::vector<uint8_t>> results;
    for (const auto& variant : SupportedVariants<QuantizeRowOp>(DataType::kInt8)) {
      results.emplace_back(x.size());
      variant.function(x.data(), count, 1.0F, 100.0F, results.back().data());
      EXPECT_EQ(results.back(), results.front()) << variant.variant;
    }
    if (count > 2) {
      EXPECT_EQ(results[0][1], 100);  // ties to even
      EXPECT_EQ(results[0][2], 102);
    }
    for (const auto& variant : SupportedVariants<RowRangeOp>(DataType::kFloat32)) {
      float least = 9, largest = 9;
      variant.function(x.data(), count, &least, &largest);
      float expected_least = 0, expected_largest = 0;
      for (const float v : x) {
        expected_least = std::min(expected_least, v);
        expected_largest = std::max(expected_largest, v);
      }
      EXPECT_EQ(least, expected_least) << variant.variant;
      EXPECT_EQ(largest, expected_largest) << variant.variant;
    }
  }
}

TEST(GatherDot, IsExactOnEveryInstructionSet) {
  Rng rng(5);
  for (const int64_t depth : {int64_t{64}, int64_t{192}, int64_t{2048}}) {
    for (const bool extremes : {false, true}) {
      const auto columns = static_cast<size_t>(depth);
      std::vector<uint8_t> input(kGatherRows * (columns + 3));
      std::vector<int8_t> weights(kGatherOutputs * columns);
      for (uint8_t& x : input) x = static_cast<uint8_t>(extremes ? 255 : rng.Below(256));
      for (int8_t& w : weights) w = static_cast<int8_t>(extremes ? -127 : static_cast<int>(rng.Below(255)) - 127);
      for (int rows = 0; rows <= kGatherRows; ++rows) {
        for (int outputs = 0; outputs <= kGatherOutputs; ++outputs) {
          GatherDotArgs args;
          args.input = input.data();
          args.input_stride = depth + 3;
          args.rows = rows;
          args.outputs = outputs;
          args.depth = depth;
          for (size_t o = 0; o < kGatherOutputs; ++o) args.weights[o] = weights.data() + o * columns;
          for (const auto& variant : SupportedVariants<GatherDotOp>(DataType::kInt8)) {
            std::vector<int32_t> out(kGatherOutputs * kGatherRows, 77), expected = out;
            args.out = out.data();
            variant.function(args);
            for (int o = 0; o < outputs; ++o) {
              for (int r = 0; r < rows; ++r) {
                int64_t sum = 0;
                for (size_t i = 0; i < columns; ++i) {
                  sum += int64_t{input[static_cast<size_t>(r) * (columns + 3) + i]} * args.weights[o][i];
                }
                expected[static_cast<size_t>(o * kGatherRows + r)] = static_cast<int32_t>(sum);
              }
            }
            EXPECT_EQ(out, expected) << variant.variant;
          }
        }
      }
    }
  }
}

TEST(Isa, NamesAreChecked) {
  EXPECT_EQ(ParseIsa(IsaName(BestIsa())), BestIsa());
  EXPECT_THROW(ParseIsa("avx1024"), UsageError);
#if defined(__x86_64__)
  EXPECT_THROW(ParseIsa("neon"), UsageError);
#endif
}

}  // namespace
}  // namespace antiphon
