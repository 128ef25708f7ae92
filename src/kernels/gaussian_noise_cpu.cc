#include <algorithm>

#include "kernels/gaussian_noise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gaussian_noise_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

// Below foreach_target.h, which includes this file once per instruction set.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace antiphon {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DU = hn::CappedTag<uint32_t, 16>;
using VU = hn::Vec<DU>;
using DF = hn::RebindToFloat<DU>;
using VF = hn::Vec<DF>;

struct Words {
  VU w[4];
};

HWY_INLINE void Multiply(VU a, uint32_t b, VU& high, VU& low) {
  const DU du;
#if HWY_TARGET == HWY_SCALAR
  const uint64_t product = uint64_t{hn::GetLane(a)} * b;
  high = hn::Set(du, static_cast<uint32_t>(product >> 32));
  low = hn::Set(du, static_cast<uint32_t>(product));
#else
  const hn::Repartition<uint64_t, DU> dw;
  const VU factor = hn::Set(du, b);
  const auto even = hn::MulEven(a, factor);
  const auto odd = hn::MulEven(hn::BitCast(du, hn::ShiftRight<32>(hn::BitCast(dw, a))), factor);
  high = hn::OddEven(hn::BitCast(du, odd), hn::BitCast(du, hn::ShiftRight<32>(even)));
  low = hn::OddEven(hn::BitCast(du, hn::ShiftLeft<32>(odd)), hn::BitCast(du, even));
#endif
}

HWY_INLINE Words PhiloxOf(uint64_t key, VU counter_low, VU counter_high) {
  const DU du;
  Words c = {{counter_low, counter_high, hn::Set(du, 0x64697468u), hn::Zero(du)}};
  uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    VU high0, low0, high1, low1;
    Multiply(c.w[0], 0xD2511F53u, high0, low0);
    Multiply(c.w[2], 0xCD9E8D57u, high1, low1);
    c.w[0] = hn::Xor(hn::Xor(high1, c.w[1]), hn::Set(du, key0));
    c.w[2] = hn::Xor(hn::Xor(high0, c.w[3]), hn::Set(du, key1));
    c.w[1] = low1;
    c.w[3] = low0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return c;
}

HWY_INLINE VF ToUnit(VU bits, uint32_t plus) {
  const DU du;
  const DF df;
  const auto integer = hn::BitCast(hn::RebindToSigned<DU>(), hn::Add(hn::ShiftRight<8>(bits), hn::Set(du, plus)));
  return hn::Mul(hn::ConvertTo(df, integer), hn::Set(df, 0x1p-24f));
}

HWY_INLINE void BoxMuller(VU u, VU v, float stddev, float* x, float* y) {
  const DF df;
  const VF radius = hn::Mul(hn::Set(df, stddev), hn::Sqrt(hn::Mul(hn::Set(df, -2.0f), hn::Log(df, ToUnit(u, 1)))));
  const VF angle = hn::Mul(hn::Set(df, 6.28318530717958648f), ToUnit(v, 0));
  hn::Store(hn::Mul(radius, hn::Cos(df, angle)), df, x);
  hn::Store(hn::Mul(radius, hn::Sin(df, angle)), df, y);
}

// Sixty-four values.
void Chunk(uint64_t key, uint64_t chunk, float stddev, float* out) {
  const DU du;
  const uint64_t counter = chunk * 16;
  for (size_t column = 0; column < 16; column += hn::Lanes(du)) {
    // 16·chunk ends in four zero bits: the lane never carries into the upper word.
    const VU low = hn::Add(hn::Iota(du, static_cast<uint32_t>(column)), hn::Set(du, static_cast<uint32_t>(counter)));
    const Words words = PhiloxOf(key, low, hn::Set(du, static_cast<uint32_t>(counter >> 32)));
    BoxMuller(words.w[0], words.w[1], stddev, out + column, out + 16 + column);
    BoxMuller(words.w[2], words.w[3], stddev, out + 32 + column, out + 48 + column);
  }
}

void AddNoiseImpl(uint64_t key, int64_t first, int64_t count, float stddev, float* x) {
  HWY_ALIGN float chunk[64];
  const int64_t end = first + count;
  for (int64_t position = first; position < end;) {
    const int64_t begin = position / 64 * 64;
    const int64_t stop = std::min(end, begin + 64);
    Chunk(key, static_cast<uint64_t>(begin / 64), stddev, chunk);
    for (; position < stop; ++position) x[position - first] += chunk[position - begin];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace antiphon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace antiphon {
namespace {
HWY_EXPORT(AddNoiseImpl);
}  // namespace

void AddGaussianNoise(uint64_t key, int64_t first, int64_t count, float stddev, float* x) {
  HWY_DYNAMIC_DISPATCH(AddNoiseImpl)(key, first, count, stddev, x);
}

}  // namespace antiphon
#endif
