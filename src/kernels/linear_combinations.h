// Several sums over the same few arrays at once: out_i = Σ_j c_ij · in_j, element by element.
//
// Shapes: `inputs` arrays and `outputs` arrays of `size` values each, `coefficients` [outputs, inputs]. Products are
// added in the order of the inputs, fused. An output may be an input's own memory; a null one is left out.
// Threads: pure functions; callers share rows among threads. NaN goes through, also times zero.
#pragma once

#include <cstdint>

#include "device/kernel_table.h"

namespace antiphon {

struct LinearCombinationsArgs {
  static constexpr int kMostInputs = 9;
  int inputs = 0;
  int outputs = 0;
  const float* coefficients = nullptr;
  const float* const* in = nullptr;
  float* const* out = nullptr;
  int64_t size = 0;
};

struct LinearCombinationsOp {
  static constexpr const char* kName = "linear_combinations";
  using Function = void (*)(const LinearCombinationsArgs& args);
};

inline void LinearCombinations(const LinearCombinationsArgs& args) { CpuKernel<LinearCombinationsOp>()(args); }

}  // namespace antiphon
