// The inner loop of inference: a few frames times a panel of 64 outputs, over the whole depth.
//
// Weights lie in panels, so that one pass reads them as one stream: panel p holds outputs 64p … 64p + 63, in strips of
// as many outputs as a kernel sums up at a time, and in a strip step by step of the depth strip × kGroup values, output
// by output (kGroup = 1 for fp32, 2 for bf16, 4 for int8; what is beyond the matrix is zero). Inputs are rows whose
// depth is padded in the same way.
//
//   fp32  float × float, one multiply-add after another in the order of the depth: the bits do not depend on how many
//         frames go together, only on whether the instruction set fuses the two (all but sse4 and portable do).
//   bf16  pairs of products in fp32; bits differ between instruction sets, not between batches.
//   int8  unsigned inputs × signed weights in [−127, 127] with exact 32-bit sums: every instruction set gives the same
//         bits. Depth ≤ kMaxInt8Depth keeps the sum in range. Without VNNI the 8-bit multiply-add leaves sums of two
//         products in 16 bits, where 2·255·127 does not fit: DenseTileOp widens both factors first. ShortSumTileOp does
//         not, and adds two such sums in 16 bits: for weights whose short sums fit (nn/quantize.h).
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
constexpr int kMostTileRows = 48;
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
  /// The panel was just read: its strips need no fetching.
  bool panel_in_cache = false;
  /// What the calls after this one read: brought into the second cache meanwhile, where rows allow. Null: nothing.
  const char* next = nullptr;
  int64_t next_bytes = 0;
};

/// How many rows a variant takes best at a time, in what steps they cost, and the outputs of its strips.
struct DenseTileShape {
  int rows = kTileRows;
  int step = 1;
  int64_t strip = kPanelOutputs;
};
DenseTileShape DenseTileShapeOf(DataType type, std::string_view variant);

/// Where a panel has a weight, counted in values. `groups`: of the whole depth.
constexpr int64_t PlaceInPanel(DataType type, int64_t strip, int64_t groups, int64_t output, int64_t input) {
  const int64_t group = DepthGroup(type), o = output % kPanelOutputs;
  return ((o / strip * groups + input / group) * strip + o % strip) * group + input % group;
}

struct DenseTileOp {
  static constexpr const char* kName = "dense_tile";
  using Function = void (*)(const DenseTileArgs& args);
};

/// int8 only. The exact sums for all inputs if, of each output's weights,
/// those at depths 8j + {0, 1, 4, 5} and those at 8j + {2, 3, 6, 7} have positive and negative parts of at most
/// kMostShortSum each.
struct ShortSumTileOp {
  static constexpr const char* kName = "short_sum_tile";
  using Function = void (*)(const DenseTileArgs& args);
};
constexpr int kMostShortSum = 128;  // 255 · 128 ≤ 32767
DenseTileShape ShortSumTileShapeOf(std::string_view variant);

}  // namespace antiphon
