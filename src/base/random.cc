#include "base/random.h"

#include <cmath>
#include <numbers>

#include "base/check.h"

namespace antiphon {

std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> c, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(p0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return c;
}

uint64_t MixSeed(uint64_t a, uint64_t b) {
  const auto r = Philox({static_cast<uint32_t>(b), static_cast<uint32_t>(b >> 32), 0x6d697831u, 0},
                        {static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32)});
  return (uint64_t{r[1]} << 32) | r[0];
}

uint32_t Rng::NextU32() {
  const uint64_t word = position_ & 3;
  if (word == 0) {
    const uint64_t block = position_ >> 2;
    block_ = Philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), static_cast<uint32_t>(stream_),
                     static_cast<uint32_t>(stream_ >> 32)},
                    {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
  }
  ++position_;
  return block_[word];
}

uint64_t Rng::NextU64() {
  const uint64_t low = NextU32();
  return (uint64_t{NextU32()} << 32) | low;
}

double Rng::Uniform() { return static_cast<double>(NextU64() >> 11) * 0x1.0p-53; }

uint64_t Rng::Below(uint64_t n) {
  CHECK_GT(n, uint64_t{0});
  const uint64_t limit = n * (UINT64_MAX / n);
  uint64_t value = NextU64();
  while (value >= limit) value = NextU64();
  return value % n;
}

double Rng::Normal() {
  const double u = 1.0 - Uniform();
  const double v = Uniform();
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

void Rng::Seek(uint64_t position) {
  position_ = position & ~uint64_t{3};
  while (position_ < position) NextU32();
}

}  // namespace antiphon
