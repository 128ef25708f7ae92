// Dot products of one weight row with a few frames, in 8 bits: single outputs of a layer, wherever they lie.
//
// out[r] = Σ input[r][i] · weights[i], unsigned times signed, exact in 32 bits on every instruction set.
// Shapes: rows ≤ kGatherRows; depth a multiple of kGatherDepth, padding zero in the weights.
// Threads: pure functions. Variants are named by instruction set (device/isa_kernel.h).
#pragma once

#include <cstdint>

#include "device/isa_kernel.h"

namespace antiphon {

constexpr int kGatherRows = 8;
constexpr int64_t kGatherDepth = 64;

struct GatherDotOp {
  static constexpr const char* kName = "gather_dot";
  using Function = void (*)(const uint8_t* input, int64_t input_stride, int rows, const int8_t* weights, int64_t depth,
                            int32_t* out);
};

}  // namespace antiphon
