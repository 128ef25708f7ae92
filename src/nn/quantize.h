// Weights in few bits: rounded to whole multiples of a scale of their row.
//
// w ≈ s·q with |q| ≤ 127 (8 bits) or 7 (4 bits) and s = max|w| / M, rounded up to 16 bits of mantissa, so that s·q is
// exact in fp32. M is 7 for 4 bits. For 8 bits it is the largest number of steps up to 127 with which the row's short
// sums fit (kernels/dense_tile.h): then every CPU's byte multiply-adds are exact, and fast, and all give the same bits.
// A row that holds whole multiples of a scale already keeps them, so that quantizing a result again gives the same
// integers and scales. Rounding is to the nearest, ties to even. A row of zeros has scale 0. Shapes: one scale per row.
// Threads: plain functions. Errors: none; values must be finite. Source: algorithms reference 2.6.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "math/matrix.h"

namespace antiphon::nn {

/// The largest integer of symmetric weights of that many bits: 127 for 8, 7 for 4.
constexpr int LargestInteger(int bits) { return (1 << (bits - 1)) - 1; }

struct QuantizedRows {
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<int8_t> values;  // [rows · cols]
  std::vector<float> scales;   // [rows]
  std::span<const int8_t> Row(int64_t row) const {
    return std::span(values).subspan(static_cast<size_t>(row * cols), static_cast<size_t>(cols));
  }
};

/// Scale of a row of weights.
float RowScale(std::span<const float> row, int bits);
QuantizedRows QuantizeRows(ConstMatrixView weight, int bits);
/// The integer that stands for w; 0 if the scale is 0.
int8_t ToInteger(float w, float scale);
/// Whether ShortSumTileOp may compute with these weights. Rows that were quantized by other rules may not fit.
bool ShortSumsFit(const QuantizedRows& weights);
/// to = s·q of `from`, which may be its own memory.
void RoundToIntegers(ConstMatrixView from, int bits, MatrixView to);

/// Activations: x ≈ scale·(q − zero), q from 0 to 255, 0 exactly representable. A scale of 0 stands for no rounding.
struct InputRange {
  float scale = 0;
  float zero = 0;
};
/// The range that holds [low, high] (and 0).
InputRange RangeFor(float low, float high);
/// to = x rounded to what the range can hold; values beyond its ends are cut off.
void RoundToRange(ConstMatrixView x, const InputRange& range, MatrixView to);

/// Mean |w| of a row, the scale of its signs.
float SignScale(std::span<const float> row);
/// to = s·sign(w) per row, sign 0 = +1.
void RoundToSigns(ConstMatrixView from, MatrixView to);

}  // namespace antiphon::nn
