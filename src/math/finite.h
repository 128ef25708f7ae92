// Whether numbers are finite.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace antiphon {

/// Neither infinite nor NaN.
inline bool AllFinite(std::span<const float> values) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t bad = 0;  // whole numbers, so that the compiler may take many at a time
  for (const float x : values) bad |= (std::bit_cast<uint32_t>(x) & kExponent) == kExponent ? 1U : 0U;
  return bad == 0;
}

}  // namespace antiphon
