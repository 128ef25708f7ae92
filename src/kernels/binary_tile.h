// The inner loop of binary layers: a few frames of ±1 times a panel of 64 outputs of ±1, by exclusive-or and popcount.
//
// A set bit is −1. Sum of products = depth − 2 · popcount(x xor w); bits beyond the depth are zero in both.
// Shapes: inputs `words` 64-bit words per row; panels as in dense_tile.h with one word for 64 values of the depth:
// word by word 64 outputs. rows ≤ kTileRows; out [rows, 64].
// Threads: pure functions. Variants are named by instruction set; all give the same sums.
// Source: Courbariaux, Hubara, Soudry, El-Yaniv, Bengio, Binarized neural networks, 2016; Rastegari et al., XNOR-Net,
// ECCV 2016.
#pragma once

#include <cstdint>

#include "device/isa_kernel.h"

namespace antiphon {

struct BinaryTileArgs {
  const uint64_t* input = nullptr;
  int64_t input_stride = 0;  // words
  int rows = 0;
  const uint64_t* panel = nullptr;
  int64_t words = 0;
  int64_t depth = 0;
  int32_t* out = nullptr;
};

struct BinaryTileOp {
  static constexpr const char* kName = "binary_tile";
  using Function = void (*)(const BinaryTileArgs& args);
};

}  // namespace antiphon
