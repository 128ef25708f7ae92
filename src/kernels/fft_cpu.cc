#include <cmath>
#include <numbers>

#include "base/check.h"
#include "kernels/fft.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/fft_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace antiphon {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, kFrameLanes>;
using V = hn::Vec<D>;

struct Complex {
  V re, im;
};

HWY_INLINE Complex Load(const float* z, int64_t index) {
  const D d;
  return {hn::Load(d, z + 2 * kFrameLanes * index), hn::Load(d, z + 2 * kFrameLanes * index + kFrameLanes)};
}
HWY_INLINE void Store(Complex x, float* z, int64_t index) {
  const D d;
  hn::Store(x.re, d, z + 2 * kFrameLanes * index);
  hn::Store(x.im, d, z + 2 * kFrameLanes * index + kFrameLanes);
}
HWY_INLINE Complex operator+(Complex a, Complex b) { return {hn::Add(a.re, b.re), hn::Add(a.im, b.im)}; }
HWY_INLINE Complex operator-(Complex a, Complex b) { return {hn::Sub(a.re, b.re), hn::Sub(a.im, b.im)}; }
HWY_INLINE Complex Times(Complex a, const float* w) {
  const D d;
  const V re = hn::Set(d, w[0]), im = hn::Set(d, w[1]);
  return {hn::NegMulAdd(a.im, im, hn::Mul(a.re, re)), hn::MulAdd(a.im, re, hn::Mul(a.re, im))};
}
HWY_INLINE Complex TimesMinusI(Complex a) { return {a.im, hn::Neg(a.re)}; }

void StageOf4(float* z, int total, int length, const float* twiddles) {
  const int quarter = length / 4;
  for (int group = 0; group < total; group += length) {
    for (int k = 0; k < quarter; ++k) {
      const int at = group + k;
      const Complex a = Load(z, at), b = Load(z, at + quarter), c = Load(z, at + 2 * quarter),
                    e = Load(z, at + 3 * quarter);
      const Complex sum = a + c, difference = a - c, other_sum = b + e, turned = TimesMinusI(b - e);
      const float* w = twiddles + 6 * k;
      Store(sum + other_sum, z, at);
      Store(Times(difference + turned, w), z, at + quarter);
      Store(Times(sum - other_sum, w + 2), z, at + 2 * quarter);
      Store(Times(difference - turned, w + 4), z, at + 3 * quarter);
    }
  }
}

// The last stage of four has no twiddles to multiply by.
void LastStageOf4(float* z, int total) {
  for (int at = 0; at < total; at += 4) {
    const Complex a = Load(z, at), b = Load(z, at + 1), c = Load(z, at + 2), e = Load(z, at + 3);
    const Complex sum = a + c, difference = a - c, other_sum = b + e, turned = TimesMinusI(b - e);
    Store(sum + other_sum, z, at);
    Store(difference + turned, z, at + 1);
    Store(sum - other_sum, z, at + 2);
    Store(difference - turned, z, at + 3);
  }
}

void LastStageOf2(float* z, int total) {
  for (int at = 0; at < total; at += 2) {
    const Complex a = Load(z, at), b = Load(z, at + 1);
    Store(a + b, z, at);
    Store(a - b, z, at + 1);
  }
}

// From the transform of even + i·odd samples to the power of both halves of the spectrum.
void PowerOfReal(const BlockFft& fft, const float* z, float* power) {
  const D d;
  const int half = fft.size() / 2;
  const int32_t* position = fft.positions().data();
  const float* w = fft.real_twiddles().data();
  const V one_half = hn::Set(d, 0.5f);
  const auto norm = [](Complex x) { return hn::MulAdd(x.re, x.re, hn::Mul(x.im, x.im)); };
  const Complex first = Load(z, 0);
  const V dc = hn::Add(first.re, first.im), nyquist = hn::Sub(first.re, first.im);
  hn::Store(hn::Mul(dc, dc), d, power);
  hn::Store(hn::Mul(nyquist, nyquist), d, power + kFrameLanes * half);
  for (int k = 1; k <= half / 2; ++k) {
    const Complex x = Load(z, position[k]), y = Load(z, position[half - k]);
    const Complex even = {hn::Mul(one_half, hn::Add(x.re, y.re)), hn::Mul(one_half, hn::Sub(x.im, y.im))};
    const Complex odd = {hn::Mul(one_half, hn::Add(x.im, y.im)), hn::Mul(one_half, hn::Sub(y.re, x.re))};
    const Complex turned = Times(odd, w + 2 * k);
    hn::Store(norm(even + turned), d, power + kFrameLanes * k);
    hn::Store(norm(even - turned), d, power + kFrameLanes * (half - k));
  }
}

void BlockPower(const BlockFft& fft, float* block, float* power) {
  const int half = fft.size() / 2;
  for (size_t column = 0; column < kFrameLanes; column += hn::Lanes(D())) {
    float* z = block + column;
    for (const BlockFft::Stage& stage : fft.stages()) {
      if (stage.length == 2) {
        LastStageOf2(z, half);
      } else if (stage.length == 4) {
        LastStageOf4(z, half);
      } else {
        StageOf4(z, half, stage.length, fft.twiddles().data() + stage.twiddle);
      }
    }
    PowerOfReal(fft, z, power + column);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace antiphon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace antiphon {
namespace {

HWY_EXPORT(BlockPower);

void AppendFactor(double turns, std::vector<float>& out) {
  const double angle = -2.0 * std::numbers::pi * turns;
  out.push_back(static_cast<float>(std::cos(angle)));
  out.push_back(static_cast<float>(std::sin(angle)));
}

int Position(int length, int k) {
  if (length == 1) return 0;
  if (length == 2) return k;
  return (k % 4) * (length / 4) + Position(length / 4, k / 4);
}

}  // namespace

BlockFft::BlockFft(int size) : size_(size) {
  CHECK(size >= 4 && size <= (1 << 20) && (size & (size - 1)) == 0) << "size " << size << " is not a power of two";
  const int half = size / 2;
  for (int length = half; length > 1; length /= 4) {
    stages_.push_back({length, static_cast<int>(twiddles_.size())});
    for (int k = 0; k < length / 4; ++k) {
      for (int power = 1; power <= 3; ++power) AppendFactor(static_cast<double>(k) * power / length, twiddles_);
    }
  }
  for (int k = 0; k < half; ++k) positions_.push_back(Position(half, k));
  for (int k = 0; k <= size / 4; ++k) AppendFactor(static_cast<double>(k) / size, real_twiddles_);
}

void BlockFft::Power(float* block, float* power) const { HWY_DYNAMIC_DISPATCH(BlockPower)(*this, block, power); }

}  // namespace antiphon
#endif
