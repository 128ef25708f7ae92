// IEEE half precision (fp16), for storage and transport; arithmetic is done in fp32.
//
// Rounding: to nearest, ties to even; what exceeds 65504 becomes infinite, NaN stays NaN, subnormals are kept.
#pragma once

#include <bit>
#include <cstdint>

namespace antiphon {

inline uint16_t ToHalf(float value) {
  constexpr uint32_t kInfinity = 255u << 23;
  constexpr uint32_t kTooLarge = (127u + 16u) << 23;
  constexpr uint32_t kSmallestNormal = 113u << 23;
  constexpr uint32_t kSubnormalMagic = ((127u - 15u) + (23u - 10u) + 1u) << 23;
  const uint32_t all = std::bit_cast<uint32_t>(value);
  const uint32_t sign = all & 0x80000000u;
  uint32_t bits = all ^ sign;
  if (bits >= kTooLarge) {
    bits = bits > kInfinity ? 0x7e00u : 0x7c00u;
  } else if (bits < kSmallestNormal) {
    // The adder rounds: the sum's lowest bits are the subnormal's.
    bits =
        std::bit_cast<uint32_t>(std::bit_cast<float>(bits) + std::bit_cast<float>(kSubnormalMagic)) - kSubnormalMagic;
  } else {
    const uint32_t odd = bits >> 13 & 1;
    bits = (bits - ((127u - 15u) << 23) + 0xfffu + odd) >> 13;
  }
  return static_cast<uint16_t>(bits | sign >> 16);
}

inline float FromHalf(uint16_t half) {
  constexpr uint32_t kExponent = 0x7c00u << 13;
  uint32_t bits = (half & 0x7fffu) << 13;
  const uint32_t exponent = bits & kExponent;
  bits += (127u - 15u) << 23;
  if (exponent == kExponent) {
    bits += (128u - 16u) << 23;
  } else if (exponent == 0) {
    bits = std::bit_cast<uint32_t>(std::bit_cast<float>(bits + (1u << 23)) - std::bit_cast<float>(113u << 23));
  }
  return std::bit_cast<float>(bits | (half & 0x8000u) << 16);
}

}  // namespace antiphon
