// Messages of floats as floats. Threads: none. Errors: none; the bytes are a whole number of floats.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace antiphon::parallel {

inline std::span<const float> AsFloats(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}
inline std::span<float> AsFloats(std::vector<std::byte>& bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

}  // namespace antiphon::parallel
