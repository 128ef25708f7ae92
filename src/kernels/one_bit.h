// One bit per value: what lies at or above zero, and below, becomes the mean of its kind in its column.
//
// u = x + remainder; bit = (u ≥ 0); û = mean of the u of the same bit in the same column; remainder = u − û, so that
// the remainders of a column add up to zero and nothing is lost over time.
// Layout of the bits: strips of kOneBitStrip columns, the last one narrower; in a strip ⌈width/8⌉ bytes per row, least
// significant bit first, bits beyond the width zero.
// Shapes: x [n, m]; means [2, m]: row 0 of the values below zero, row 1 of the others, 0 where there are none; bits
// OneBitBytes(n, m).
// Threads: the caller's compute threads; results do not depend on their number. NaN counts as below zero and goes into
// its column's mean. Source: Seide, Fu, Droppo, Li, Yu, Interspeech 2014.
#pragma once

#include <cstdint>

#include "device/kernel_table.h"
#include "math/matrix.h"

namespace antiphon {

constexpr int64_t kOneBitStrip = 64;

/// `remainder` has the shape of x, and is changed.
struct OneBitEncodeOp {
  static constexpr const char* kName = "one_bit_encode";
  using Function = void (*)(ConstMatrixView x, MatrixView remainder, MatrixView means, uint8_t* bits);
};
/// Overwrites x.
struct OneBitDecodeOp {
  static constexpr const char* kName = "one_bit_decode";
  using Function = void (*)(ConstMatrixView means, const uint8_t* bits, MatrixView x);
};

inline void OneBitEncode(ConstMatrixView x, MatrixView remainder, MatrixView means, uint8_t* bits) {
  CpuKernel<OneBitEncodeOp>()(x, remainder, means, bits);
}
inline void OneBitDecode(ConstMatrixView means, const uint8_t* bits, MatrixView x) {
  CpuKernel<OneBitDecodeOp>()(means, bits, x);
}

/// Bytes of the bits of the first `cols` columns, whole strips but for the last.
constexpr int64_t OneBitBytes(int64_t rows, int64_t cols) {
  return rows * (cols / kOneBitStrip * (kOneBitStrip / 8) + (cols % kOneBitStrip + 7) / 8);
}

}  // namespace antiphon
