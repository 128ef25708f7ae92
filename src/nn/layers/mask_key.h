// The key of a layer's random masks.
#pragma once

#include <array>
#include <cstdint>

#include "base/random.h"
#include "nn/exec_context.h"

namespace antiphon::nn {

/// For Philox: a function of (seed, step, layer) alone, so that the backward pass draws the masks again and no thread
/// has a say. Draw with counters that name row, column and kind of mask.
inline std::array<uint32_t, 2> MaskKey(const ExecContext& ctx, uint64_t layer) {
  const uint64_t seed = MixSeed(MixSeed(ctx.seed, static_cast<uint64_t>(ctx.step)), layer);
  return {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
}

}  // namespace antiphon::nn
