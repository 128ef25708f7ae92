#include "math/finite_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "base/error.h"

namespace antiphon {
namespace {

// Exponents of nothing but ones: infinite, or no number. The data may be unaligned.
template <class Bits>
std::optional<size_t> FirstWith(Bits exponent, std::span<const std::byte> data) {
  constexpr size_t kBlock = 4096;
  Bits block[kBlock];
  const size_t count = data.size() / sizeof(Bits);
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t some = std::min(kBlock, count - begin);
    std::memcpy(block, data.data() + begin * sizeof(Bits), some * sizeof(Bits));
    Bits bad = 0;  // the compiler takes many at a time
    for (size_t i = 0; i < some; ++i) bad |= static_cast<Bits>((block[i] & exponent) == exponent ? 1 : 0);
    if (bad == 0) continue;
    size_t at = 0;
    while ((block[at] & exponent) != exponent) ++at;
    return begin + at;
  }
  return std::nullopt;
}

std::optional<size_t> FirstNotFinite(const TensorView& tensor) {
  switch (tensor.type) {
    case TensorType::kF64:
      return FirstWith<uint64_t>(0x7ff0'0000'0000'0000, tensor.data);
    case TensorType::kF32:
      return FirstWith<uint32_t>(0x7f80'0000, tensor.data);
    case TensorType::kF16:
      return FirstWith<uint16_t>(0x7c00, tensor.data);
    case TensorType::kBf16:
      return FirstWith<uint16_t>(0x7f80, tensor.data);
    default:
      return std::nullopt;
  }
}

}  // namespace

std::string WhatIsNotFinite(const SafetensorsReader& reader, std::string_view but_for) {
  for (const std::string& name : reader.Names()) {
    if (name == but_for) continue;
    const TensorView& tensor = reader.Tensor(name);
    if (const auto at = FirstNotFinite(tensor))
      return fmt::format("tensor '{}' [{}] holds a value that is not finite at {}", name, fmt::join(tensor.shape, ", "),
                         *at);
  }
  return "";
}

void RequireFinite(const SafetensorsReader& reader, std::string_view but_for) {
  if (const std::string what = WhatIsNotFinite(reader, but_for); !what.empty())
    Throw<InputError>("{}; what wrote the file went wrong: make it again", what);
}

}  // namespace antiphon
