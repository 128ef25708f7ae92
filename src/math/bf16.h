// bfloat16: the upper half of a float; storage only, arithmetic is done in fp32.
//
// Rounding: to nearest, ties to even; NaN stays NaN, infinities stay. Conversion of whole matrices: kernels/convert.h.
#pragma once

#include <bit>
#include <cstdint>

#include "math/matrix.h"

namespace antiphon {

struct Bf16 {
  uint16_t bits;
};

inline Bf16 ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16)};
}

inline float ToFloat(Bf16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }

using Bf16Matrix = BasicMatrix<Bf16>;
using Bf16View = BasicMatrixView<Bf16>;
using ConstBf16View = BasicMatrixView<const Bf16>;

}  // namespace antiphon
