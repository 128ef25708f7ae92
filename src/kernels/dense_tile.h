// The inner loop of inference: a few frames times a panel of 64 outputs, over the whole depth.
//
// Weights lie in panels, so that one pass reads them as one stream: panel p holds outputs 64p … 64p + 63, and in it
// step by step of the depth 64 × kGroup values, output by output (kGroup = 1 for fp32, 2 for bf16, 4 for int8; what is
// beyond the matrix is zero). Inputs are rows whose depth is padded in the same way.
//
//   fp32  float × float, one multiply-add after another in the order of the depth: the bits do not depend on how many
//         frames go together, only on whether the instruction set fuses the two (all but sse4 and portable do).
//   bf16  pairs of products in fp32; bits differ between instruction sets, not between batches.
//   int8  unsigned inputs × signed weights in [−127, 127] with exact 32-bit sums: every instruction set gives the same
//         bits. Without VNNI both are widened to 16 bits, because the 8-bit multiply-add saturates in pairs
//         (2·255·127 > 32767). Depth ≤ kMaxInt8Depth keeps the sum in range.
//
// Shapes: any number of rows, best as many as DenseTileShape says; `out` [rows, 64] int32 (int8) or float, contiguous.
// Threads: pure functions. Variants are named by instruction set (device/isa_kernel.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "device/isa_kernel.h"

namespace antiphon {

constexpr int64_t kPanelOutputs = 64;
constexpr int kTileRows = 6;
constexpr int kMostTileRows = 32;
constexpr int64_t kMaxInt8Depth = 66'000;

/// Values of one output that lie side by side in a panel.
constexpr int64_t DepthGroup(DataType type) { return type == DataType::kInt8 ? 4 : type == DataType::kBf16 ? 2 : 1; }

struct DenseTileArgs {
  const void* input = nullptr;  // row 0
  int64_t input_stride = 0;     // bytes from row to row
  int rows = 0;
  const void* panel = nullptr;
  int64_t groups = 0;  // depth / kGroup, rounded up
  void* out = nullptr;
};

/// How many rows a variant takes best at a time, and in what steps they cost.
struct DenseTileShape {
  int rows = kTileRows;
  int step = 1;
  static DenseTileShape Of(DataType type, std::string_view variant) {
    return variant == "avx512-amx" && type != DataType::kFloat32 ? DenseTileShape{kMostTileRows, 16} : DenseTileShape{};
  }
};

struct DenseTileOp {
  static constexpr const char* kName = "dense_tile";
  using Function = void (*)(const DenseTileArgs& args);
};

}  // namespace antiphon
