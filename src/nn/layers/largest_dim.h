// Sizes of layers.
#pragma once

namespace antiphon::nn {

/// Values of a frame before or behind a layer, at most: products of two such sizes are still exact in 64 bits.
inline constexpr int kLargestDim = 1 << 24;

}  // namespace antiphon::nn
