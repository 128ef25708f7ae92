// A mutation of an OpenFst file: cut, longer, or with some of its bytes changed, more often than not in its header.
#pragma once

#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>

#include "base/random.h"

namespace antiphon::testing {

inline std::string MutatedFst(std::string fst, Rng& rng) {
  const auto below = [&](size_t n) { return static_cast<size_t>(rng.Below(n)); };
  const uint64_t kind = rng.Below(8);
  if (kind == 0) return fst.substr(0, below(fst.size()));
  if (kind == 1) return fst + std::string(1 + below(64), static_cast<char>(below(256)));
  const size_t range = kind < 5 ? 80 : fst.size();
  if (kind == 2 || kind == 5) {
    fst[below(range)] ^= static_cast<char>(1 << below(8));
  } else {
    constexpr int32_t kValues[] = {0,
                                   1,
                                   2,
                                   -1,
                                   1 << 16,
                                   1 << 30,
                                   std::numeric_limits<int32_t>::max(),
                                   std::numeric_limits<int32_t>::min(),
                                   0x7fc00000,
                                   0x7f800000};
    const int32_t value = kValues[below(std::size(kValues))];
    std::memcpy(fst.data() + below(range / 4 - 1) * 4, &value, sizeof value);
  }
  return fst;
}

}  // namespace antiphon::testing
