#include <limits>

#include "base/check.h"
#include "kernels/frame_block.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/frame_block_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

// Below foreach_target.h, which includes this file once per instruction set.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace antiphon {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, kFrameLanes>;
using V = hn::Vec<D>;
using DI = hn::RebindToSigned<D>;

// Cuts into `block`, returns the sum; four partial sums keep the additions short.
template <class Index>
HWY_INLINE V Gather(const float* samples, Index offsets, int length, float* block) {
  const D d;
  V sum[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  int i = 0;
  for (; i + 4 <= length; i += 4) {
    for (int j = 0; j < 4; ++j) {
      const V x = hn::GatherIndex(d, samples + i + j, offsets);
      hn::Store(x, d, block + (i + j) * kFrameLanes);
      sum[j] = hn::Add(sum[j], x);
    }
  }
  for (; i < length; ++i) {
    const V x = hn::GatherIndex(d, samples + i, offsets);
    hn::Store(x, d, block + i * kFrameLanes);
    sum[0] = hn::Add(sum[0], x);
  }
  return hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]));
}

// Mean, energy, pre-emphasis and window in one pass.
HWY_INLINE V Shape(const FrameWindow& window, V mean, float* block) {
  const D d;
  const int length = static_cast<int>(window.window.size());
  const V coefficient = hn::Set(d, window.preemphasis);
  V sum[2] = {hn::Zero(d), hn::Zero(d)};
  V previous = hn::Sub(hn::Load(d, block), mean);
  for (int i = 0; i < length; ++i) {
    const V x = hn::Sub(hn::Load(d, block + i * kFrameLanes), mean);
    sum[i & 1] = hn::MulAdd(x, x, sum[i & 1]);
    // Not fused: rounded as Kaldi's, which shows where a loud tone leaves most filters almost empty.
    const V emphasized = hn::Sub(x, hn::Mul(coefficient, previous));
    hn::Store(hn::Mul(emphasized, hn::Set(d, window.window[static_cast<size_t>(i)])), d, block + i * kFrameLanes);
    previous = x;
  }
  return hn::Add(sum[0], sum[1]);
}

void CutFramesImpl(const FrameWindow& window, const float* samples, int64_t shift, int num_frames, float* block,
                   float* energy) {
  const D d;
  const DI di;
  const int length = static_cast<int>(window.window.size());
  HWY_ALIGN int32_t offsets[kFrameLanes];
  for (int l = 0; l < kFrameLanes; ++l) offsets[l] = l < num_frames ? static_cast<int32_t>(l * shift) : 0;
  for (size_t column = 0; column < kFrameLanes; column += hn::Lanes(d)) {
    float* to = block + column;
    const V total = Gather(samples, hn::Load(di, offsets + column), length, to);
    const V mean = window.remove_mean ? hn::Div(total, hn::Set(d, static_cast<float>(length))) : hn::Zero(d);
    const V sum = Shape(window, mean, to);
    if (energy != nullptr) hn::Store(sum, d, energy + column);
    for (int i = length; i < window.padded_length; ++i) hn::Store(hn::Zero(d), d, to + i * kFrameLanes);
  }
}

HWY_INLINE V Dot(const float* weights, int count, const float* in) {
  const D d;
  V even = hn::Zero(d), odd = hn::Zero(d);
  int i = 0;
  for (; i + 2 <= count; i += 2) {
    even = hn::MulAdd(hn::Set(d, weights[i]), hn::Load(d, in + i * kFrameLanes), even);
    odd = hn::MulAdd(hn::Set(d, weights[i + 1]), hn::Load(d, in + (i + 1) * kFrameLanes), odd);
  }
  if (i < count) even = hn::MulAdd(hn::Set(d, weights[i]), hn::Load(d, in + i * kFrameLanes), even);
  return hn::Add(even, odd);
}

void BandedImpl(const BandedMatrix& matrix, const float* in, float* out) {
  const D d;
  const float* weights = matrix.weights.data();
  for (size_t r = 0; r < matrix.first.size(); ++r) {
    for (size_t column = 0; column < kFrameLanes; column += hn::Lanes(d)) {
      hn::Store(Dot(weights, matrix.count[r], in + matrix.first[r] * kFrameLanes + column), d,
                out + r * kFrameLanes + column);
    }
    weights += matrix.count[r];
  }
}

void DenseImpl(const float* matrix, int rows, int cols, const float* in, float* out) {
  const D d;
  for (int r = 0; r < rows; ++r) {
    for (size_t column = 0; column < kFrameLanes; column += hn::Lanes(d)) {
      hn::Store(Dot(matrix + static_cast<int64_t>(r) * cols, cols, in + column), d, out + r * kFrameLanes + column);
    }
  }
}

void LogImpl(float* block, int rows, float floor) {
  const D d;
  const V least = hn::Set(d, floor);
  for (size_t i = 0; i < static_cast<size_t>(rows) * kFrameLanes; i += hn::Lanes(d)) {
    hn::Store(hn::Log(d, hn::Max(hn::Load(d, block + i), least)), d, block + i);
  }
}

void ScaledPowerImpl(float* block, const float* scale, int rows, float floor, float exponent) {
  const D d;
  const V least = hn::Set(d, floor), power = hn::Set(d, exponent);
  for (int r = 0; r < rows; ++r) {
    const V factor = hn::Set(d, scale[r]);
    for (size_t column = 0; column < kFrameLanes; column += hn::Lanes(d)) {
      float* at = block + r * kFrameLanes + column;
      const V x = hn::Mul(factor, hn::Max(hn::Load(d, at), least));
      hn::Store(hn::Exp(d, hn::Mul(power, hn::Log(d, x))), d, at);
    }
  }
}

// One sub-column of lanes; returns the residual energy.
V Durbin(const float* autocorrelation, int order, float* lpc, float* scratch) {
  const D d;
  const V one = hn::Set(d, 1.0f), least = hn::Set(d, 1.0e-5f);
  const auto ac = [&](int i) { return hn::Load(d, autocorrelation + i * kFrameLanes); };
  const auto a = [&](int i) { return hn::Load(d, lpc + i * kFrameLanes); };
  V error = ac(0);
  for (int i = 0; i < order; ++i) {
    V k = ac(i + 1);
    for (int j = 0; j < i; ++j) k = hn::MulAdd(a(j), ac(i - j), k);
    k = hn::Div(k, error);
    error = hn::Mul(error, hn::Max(hn::NegMulAdd(k, k, one), least));
    for (int j = 0; j < i; ++j) hn::Store(hn::NegMulAdd(k, a(i - j - 1), a(j)), d, scratch + j * kFrameLanes);
    for (int j = 0; j < i; ++j) hn::Store(hn::Load(d, scratch + j * kFrameLanes), d, lpc + j * kFrameLanes);
    hn::Store(hn::Neg(k), d, lpc + i * kFrameLanes);
  }
  return error;
}

void LpcCepstraImpl(const float* autocorrelation, int order, float* lpc, float* cepstra, float* scratch) {
  const D d;
  const V smallest = hn::Set(d, std::numeric_limits<float>::min());
  for (size_t column = 0; column < kFrameLanes; column += hn::Lanes(d)) {
    const V error = Durbin(autocorrelation + column, order, lpc + column, scratch + column);
    float* c = cepstra + column;
    hn::Store(hn::Max(hn::Log(d, hn::Max(error, smallest)), smallest), d, c);
    for (int i = 0; i < order; ++i) {
      V sum = hn::Zero(d);
      for (int j = 0; j < i; ++j) {
        const V weighted = hn::Mul(hn::Set(d, static_cast<float>(i - j)), hn::Load(d, lpc + column + j * kFrameLanes));
        sum = hn::MulAdd(weighted, hn::Load(d, c + (i - j) * kFrameLanes), sum);
      }
      const V predictor = hn::Load(d, lpc + column + i * kFrameLanes);
      hn::Store(hn::Neg(hn::Add(predictor, hn::Div(sum, hn::Set(d, static_cast<float>(i + 1))))), d,
                c + (i + 1) * kFrameLanes);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace antiphon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace antiphon {
namespace {
HWY_EXPORT(CutFramesImpl);
HWY_EXPORT(BandedImpl);
HWY_EXPORT(DenseImpl);
HWY_EXPORT(LogImpl);
HWY_EXPORT(ScaledPowerImpl);
HWY_EXPORT(LpcCepstraImpl);
}  // namespace

void CutFrames(const FrameWindow& window, const float* samples, int64_t shift, int num_frames, float* block,
               float* energy) {
  CHECK(num_frames >= 1 && num_frames <= kFrameLanes) << num_frames;
  HWY_DYNAMIC_DISPATCH(CutFramesImpl)(window, samples, shift, num_frames, block, energy);
}

void BandedTimesBlock(const BandedMatrix& matrix, const float* in, float* out) {
  HWY_DYNAMIC_DISPATCH(BandedImpl)(matrix, in, out);
}

void DenseTimesBlock(std::span<const float> matrix, int rows, int cols, const float* in, float* out) {
  CHECK_EQ(static_cast<int64_t>(matrix.size()), static_cast<int64_t>(rows) * cols);
  HWY_DYNAMIC_DISPATCH(DenseImpl)(matrix.data(), rows, cols, in, out);
}

void LogBlock(float* block, int rows, float floor) { HWY_DYNAMIC_DISPATCH(LogImpl)(block, rows, floor); }

void ScaledPowerBlock(float* block, std::span<const float> scale, float floor, float exponent) {
  HWY_DYNAMIC_DISPATCH(ScaledPowerImpl)(block, scale.data(), static_cast<int>(scale.size()), floor, exponent);
}

void LpcCepstraBlock(const float* autocorrelation, int order, float* lpc, float* cepstra, float* scratch) {
  HWY_DYNAMIC_DISPATCH(LpcCepstraImpl)(autocorrelation, order, lpc, cepstra, scratch);
}

void StoreFrames(const float* block, int rows, int num_frames, float* out, int64_t stride) {
  for (int l = 0; l < num_frames; ++l) {
    for (int r = 0; r < rows; ++r) out[l * stride + r] = block[r * kFrameLanes + l];
  }
}

}  // namespace antiphon
#endif
