// The inner loops of packed matrix products: slivers and panels side by side in memory, and a tile of sums in
// registers.
//
// The left factor's rows stand in slivers of kSliverRows, the right factor's columns in panels of `panel_cols` (two or
// four vectors): of each, depth step by depth step, all rows or columns together; what is beyond the matrix is zero.
// Rows of floats may also be read as they lie in the matrix.
//
// A tile's sums are taken in the order of the depth, one multiply-add after another, whatever stands around them: an
// element of the product has the same bits wherever blocks are cut. Instruction sets differ only in whether the
// multiply-add is fused (all but sse4 and portable). Threads: pure functions. Source: Goto, van de Geijn, Anatomy of
// high-performance matrix multiplication, 2008; Van Zee, van de Geijn, BLIS, 2015.
#pragma once

#include <cstdint>

#include "math/activation.h"
#include "math/bf16.h"

namespace antiphon {

constexpr int64_t kSliverRows = 6;

/// `lines` rows or columns of a factor, over `depth` steps, to where the tile reads them: slivers or panels of `width`
/// lines, one after the other, the last one filled up with zeros. Element (line, step) is
/// from[line · line_stride + step · depth_stride]; one of the strides is 1.
struct PackArgs {
  const void* from = nullptr;  // float or Bf16
  int64_t line_stride = 0, depth_stride = 0;
  int64_t lines = 0, depth = 0;
  int64_t width = 0;    // kSliverRows or panel_cols
  float* to = nullptr;  // [⌈lines / width⌉, depth, width]
};

struct TileArgs {
  const float* left = nullptr;  // a sliver, or the first of its rows in the matrix
  int64_t left_stride = 0;      // from row to row of the matrix
  const float* panel = nullptr;
  int64_t depth = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
  int64_t rows = 0, cols = 0;  // of the tile that exist in C
  float alpha = 1.0f;
  float accumulate = 0.0f;  // C = alpha · sums + accumulate · C; 0 leaves C unread
};

struct ProductTile {
  int64_t panel_cols;
  void (*pack)(const PackArgs& args);
  void (*pack_bf16)(const PackArgs& args);
  void (*multiply)(const TileArgs& args);       // of a sliver
  void (*multiply_rows)(const TileArgs& args);  // of rows as they lie in the matrix
  /// row = f(row + bias) of n elements; bias may be null.
  void (*finish)(float* row, const float* bias, Activation activation, int64_t n);

  /// Of the best instruction set that may be used (base/isa.h).
  static const ProductTile& OfCpu();
};

}  // namespace antiphon
