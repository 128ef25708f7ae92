#include <cmath>
#include <numbers>

#include "base/random.h"
#include "kernels/gaussian_noise.h"

namespace antiphon {

// Positions go in chunks of 64: counter 16·chunk + lane yields the values of positions lane, 16 + lane, 32 + lane, 48 +
// lane.
void AddGaussianNoiseRef(uint64_t key, int64_t first, int64_t count, float stddev, float* x) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t position = first + i;
    const uint64_t counter = static_cast<uint64_t>(position / 64 * 16 + position % 16);
    const auto words = Philox({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0x64697468u, 0},
                              {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
    const int64_t quarter = position % 64 / 16;
    const uint32_t u = words[quarter / 2 * 2], v = words[quarter / 2 * 2 + 1];
    const double radius = std::sqrt(-2.0 * std::log(((u >> 8) + 1) * 0x1p-24));
    const double angle = 2.0 * std::numbers::pi * (v >> 8) * 0x1p-24;
    x[i] += stddev * static_cast<float>(radius * (quarter % 2 == 0 ? std::cos(angle) : std::sin(angle)));
  }
}

}  // namespace antiphon
