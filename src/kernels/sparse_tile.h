// The inner loop of block-sparse layers in 8 bits: a few frames times 16 outputs, over the blocks that are not zero.
//
// A block holds the weights from 4 neighbouring inputs to 16 neighbouring outputs, output by output: one 64-byte
// vector. `columns` tells which four inputs (column c: inputs 4c … 4c + 3). Sums are exact: every instruction set gives
// the same bits (dense_tile.h says how).
//
// Shapes: rows ≤ kTileRows; input rows of unsigned bytes, padded to whole columns; out[r · out_stride …] 16 sums per
// row. Threads: pure functions. Variants are named by instruction set.
// Source: block-sparse rows, e.g. Narang, Undersander, Diamos, Block-sparse recurrent neural networks, 2017.
#pragma once

#include <cstdint>

#include "device/isa_kernel.h"

namespace antiphon {

constexpr int64_t kBlockOutputs = 16;
constexpr int64_t kBlockInputs = 4;
constexpr int64_t kBlockBytes = kBlockOutputs * kBlockInputs;

struct SparseTileArgs {
  const uint8_t* input = nullptr;
  int64_t input_stride = 0;
  int rows = 0;
  const int8_t* blocks = nullptr;
  const uint16_t* columns = nullptr;
  int64_t num_blocks = 0;
  int32_t* out = nullptr;
  int64_t out_stride = 0;  // values
};

struct SparseTileOp {
  static constexpr const char* kName = "sparse_tile";
  using Function = void (*)(const SparseTileArgs& args);
};

}  // namespace antiphon
