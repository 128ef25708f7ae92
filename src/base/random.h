// Random numbers that are the same on every machine, compiler and thread count.
//
// Rng is counter based (Philox 4x32-10; Salmon et al., SC 2011): the stream is fixed by (seed, stream id), and any
// position can be reached at once, so that data order and masks can be computed for any (epoch, worker, frame) without
// state. Distributions are our own, because the standard library's differ between implementations.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>

namespace antiphon {

/// One block of four 32-bit words for a 128-bit counter and a 64-bit key.
std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// Mixes values into one seed, so that (run seed, epoch, worker) give independent streams.
uint64_t MixSeed(uint64_t a, uint64_t b);

/// A stream of random numbers. Copyable; one per thread.
class Rng {
 public:
  explicit Rng(uint64_t seed, uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  uint32_t NextU32();
  uint64_t NextU64();
  /// Uniform in [0, 1), 53 bits.
  double Uniform();
  double Uniform(double low, double high) { return low + (high - low) * Uniform(); }
  /// Uniform in [0, n); n > 0. No modulo bias.
  uint64_t Below(uint64_t n);
  /// Standard normal (Box-Muller; uses two uniforms per pair).
  double Normal();

  template <class T>
  void Shuffle(std::span<T> values) {
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[Below(i)]);
  }

  /// Position, for checkpoints; Seek restores it.
  uint64_t position() const { return position_; }
  void Seek(uint64_t position);

 private:
  uint64_t seed_;
  uint64_t stream_;
  uint64_t position_ = 0;  // words handed out
  std::array<uint32_t, 4> block_{};
};

}  // namespace antiphon
