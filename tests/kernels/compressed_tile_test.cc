#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/random.h"
#include "kernels/binary_tile.h"
#include "kernels/circulant_bins.h"
#include "kernels/dense_tile.h"
#include "kernels/isa_variants.h"
#include "kernels/sparse_tile.h"

namespace antiphon {
namespace {

using ::antiphon::testing::SupportedVariants;

TEST(SparseTile, IsExactOnEveryInstructionSet) {
  Rng rng(1);
  const auto variants = SupportedVariants<SparseTileOp>(DataType::kInt8);
  ASSERT_GE(variants.size(), 2U);
  for (int rows = 1; rows <= kTileRows; ++rows) {
    for (const int64_t blocks : {0, 1, 2, 5, 64}) {
      for (const bool extremes : {false, true}) {
        constexpr int64_t kColumns = 100;
        std::vector<uint8_t> input(static_cast<size_t>(rows * (kColumns * kBlockInputs + 4)));
        for (uint8_t& x : input) x = static_cast<uint8_t>(extremes ? 255 : rng.Below(256));
        std::vector<uint16_t> columns(static_cast<size_t>(blocks) + 1);
        for (uint16_t& c : columns) c = static_cast<uint16_t>(rng.Below(kColumns));
        auto* weights = static_cast<int8_t*>(std::aligned_alloc(64, static_cast<size_t>((blocks + 1) * kBlockBytes)));
        for (int64_t i = 0; i < blocks * kBlockBytes; ++i) {
          weights[i] = static_cast<int8_t>(extremes ? 127 : static_cast<int>(rng.Below(255)) - 127);
        }
        std::vector<int32_t> expected;
        for (const auto& variant : variants) {
          std::vector<int32_t> out(static_cast<size_t>(rows * 64), 77);
          variant.function({.input = input.data(),
                            .input_stride = kColumns * kBlockInputs + 4,
                            .rows = rows,
                            .blocks = weights,
                            .columns = columns.data(),
                            .num_blocks = blocks,
                            .out = out.data(),
                            .out_stride = 64});
          if (expected.empty()) expected = out;
          EXPECT_EQ(out, expected) << variant.variant;
        }
        EXPECT_EQ(expected[16], 77);
        if (extremes) {
          EXPECT_EQ(expected[0], 255 * 127 * 4 * blocks);
        }
        std::free(weights);
      }
    }
  }
}

TEST(BinaryTile, CountsAsProductsOfSignsDo) {
  Rng rng(2);
  const auto variants = SupportedVariants<BinaryTileOp>(DataType::kInt8);
  ASSERT_GE(variants.size(), 2U);
  for (const int64_t depth : {1, 63, 64, 65, 500, 2048}) {
    const int64_t words = (depth + 63) / 64;
    for (int rows = 1; rows <= kTileRows; ++rows) {
      std::vector<uint64_t> input(static_cast<size_t>(rows * words)), panel(static_cast<size_t>(words * kPanelOutputs));
      std::vector<int32_t> products(static_cast<size_t>(rows * kPanelOutputs));
      std::vector<std::vector<int>> x(static_cast<size_t>(rows)), w(kPanelOutputs);
      const auto draw = [&](std::vector<int>& signs, uint64_t* to, int64_t stride) {
        for (int64_t i = 0; i < depth; ++i) {
          signs.push_back(rng.Below(2) == 0 ? 1 : -1);
          if (signs.back() < 0) to[i / 64 * stride] |= uint64_t{1} << (i % 64);
        }
      };
      for (int r = 0; r < rows; ++r) draw(x[static_cast<size_t>(r)], &input[static_cast<size_t>(r * words)], 1);
      for (size_t o = 0; o < kPanelOutputs; ++o) draw(w[o], &panel[o], kPanelOutputs);
      for (size_t r = 0; r < x.size(); ++r) {
        for (size_t o = 0; o < kPanelOutputs; ++o) {
          for (size_t i = 0; i < x[r].size(); ++i) products[r * kPanelOutputs + o] += x[r][i] * w[o][i];
        }
      }
      for (const auto& variant : variants) {
        std::vector<int32_t> out(products.size());
        variant.function({.input = input.data(),
                          .input_stride = words,
                          .rows = rows,
                          .panel = panel.data(),
                          .words = words,
                          .depth = depth,
                          .out = out.data()});
        EXPECT_EQ(out, products) << variant.variant << " " << depth;
      }
    }
  }
}

TEST(CirculantBin, AgreesWithTheReference) {
  Rng rng(3);
  const auto variants = SupportedVariants<CirculantBinOp>(DataType::kFloat32);
  ASSERT_GE(variants.size(), 2U);
  constexpr int64_t kInBlocks = 5, kBlock = 8;
  std::vector<float> spectrum(kInBlocks * 2 * kBinOutputs), in(kBinFrames * kInBlocks * kBlock);
  for (float& v : spectrum) v = static_cast<float>(rng.Normal());
  for (float& v : in) v = static_cast<float>(rng.Normal());
  for (const int64_t imaginary_at : {-1, 6}) {
    for (int frames = 1; frames <= kBinFrames; ++frames) {
      std::vector<float> expected;
      for (const auto& variant : variants) {
        std::vector<float> out(static_cast<size_t>(frames) * 2 * kBinOutputs);
        CirculantBinArgs args;
        args.spectrum = spectrum.data();
        args.in_blocks = kInBlocks;
        args.in = in.data();
        args.block_stride = kBlock;
        args.frame_stride = kInBlocks * kBlock;
        args.real_at = 3;
        args.imaginary_at = imaginary_at;
        args.frames = frames;
        args.out = out.data();
        variant.function(args);
        if (expected.empty()) expected = out;
        for (size_t i = 0; i < out.size(); ++i) {
          if (imaginary_at < 0 && i / kBinOutputs % 2 == 1) continue;  // not used
          EXPECT_NEAR(out[i], expected[i], 1e-5) << variant.variant;
        }
      }
    }
  }
}

}  // namespace
}  // namespace antiphon
