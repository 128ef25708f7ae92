// Dot products of a few weight rows with a few frames, in 8 bits: single outputs of a layer, wherever they lie.
//
// out[o · kGatherRows + r] = Σ input[r][i] · weights[o][i], unsigned times signed, exact in 32 bits on every
// instruction set. Shapes: rows ≤ kGatherRows, outputs ≤ kGatherOutputs; depth a multiple of kGatherDepth, padding zero
// in the weights. Threads: pure functions. Variants are named by instruction set (device/isa_kernel.h).
#pragma once

#include <cstdint>

#include "device/isa_kernel.h"

namespace antiphon {

constexpr int kGatherRows = 8;
constexpr int kGatherOutputs = 4;
constexpr int64_t kGatherDepth = 64;

struct GatherDotArgs {
  const uint8_t* input = nullptr;
  int64_t input_stride = 0;
  int rows = 0;
  const int8_t* weights[kGatherOutputs] = {};
  int outputs = 0;
  int64_t depth = 0;
  int32_t* out = nullptr;
};

struct GatherDotOp {
  static constexpr const char* kName = "gather_dot";
  using Function = void (*)(const GatherDotArgs& args);
};

}  // namespace antiphon
