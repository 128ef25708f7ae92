// Gaussian noise that depends on nothing but (key, position).
//
// Value i of the stream `key` is the same wherever a call begins and ends, and on every CPU up to the rounding of a
// logarithm and a cosine. Philox 4x32-10 gives the bits (base/random.h), Box-Muller the shape; values lie within ±5.8
// standard deviations. Threads: free functions.
#pragma once

#include <cstdint>

namespace antiphon {

/// x[i] += stddev · noise(key, first + i) for i < count; first ≥ 0.
void AddGaussianNoise(uint64_t key, int64_t first, int64_t count, float stddev, float* x);

/// The same in plain double-precision code.
void AddGaussianNoiseRef(uint64_t key, int64_t first, int64_t count, float stddev, float* x);

}  // namespace antiphon
