// Vector pieces that several Highway kernels share. Included once per target, inside foreach_target.
#if defined(ANTIPHON_MATH_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ANTIPHON_MATH_SIMD_MATH_INL_H_
#undef ANTIPHON_MATH_SIMD_MATH_INL_H_
#else
#define ANTIPHON_MATH_SIMD_MATH_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cstdint>

#include "math/activation.h"

HWY_BEFORE_NAMESPACE();
namespace antiphon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// exp(x) with NaN kept (Highway's turns it into 0) and x limited to 88, beyond which Highway's gives anything.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpKeepingNaN(D d, V x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, hn::Min(x, hn::Set(d, 88.0f))));
}

/// An activation of a vector; NaN stays NaN.
template <Activation kF, class D, class V = hn::Vec<D>>
HWY_INLINE V Activated(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  if constexpr (kF == Activation::kRelu) {
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x);
  } else if constexpr (kF == Activation::kSigmoid) {
    return hn::Div(one, hn::Add(one, ExpKeepingNaN(d, hn::Neg(x))));
  } else if constexpr (kF == Activation::kTanh) {
    return hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(d, x));
  } else {
    return x;
  }
}

/// The first n lanes from p, which need not be aligned, and zeros; nothing behind them is touched.
template <class D>
HWY_INLINE hn::Vec<D> LoadFirst(D d, const float* p, int64_t n) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(n)), d, p);
#else
  HWY_ALIGN float lanes[hn::MaxLanes(D())] = {};
  for (int64_t i = 0; i < n; ++i) lanes[i] = p[i];
  return hn::Load(d, lanes);
#endif
}

/// Writes the first n lanes, and nothing else.
template <class D>
HWY_INLINE void StoreFirst(D d, hn::Vec<D> v, float* p, int64_t n) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(n)), d, p);
#else
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(v, d, lanes);
  for (int64_t i = 0; i < n; ++i) p[i] = lanes[i];
#endif
}

/// Calls body(i, load, store) for whole vectors and body for the padded rest of n elements. `load(p)` gives lanes from
/// p + i and zeros beyond the end; `store(v, p)` writes only existing lanes.
template <class D, class Body>
HWY_INLINE void ForVectors(D d, int64_t n, Body body) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    body([&](const float* p) HWY_ATTR { return hn::LoadU(d, p + i); },
         [&](hn::Vec<D> v, float* p) HWY_ATTR { hn::StoreU(v, d, p + i); });
  }
  if (i < n) {
    body([&](const float* p) HWY_ATTR { return LoadFirst(d, p + i, n - i); },
         [&](hn::Vec<D> v, float* p) HWY_ATTR { StoreFirst(d, v, p + i, n - i); });
  }
}

/// Rounds to bf16 (nearest, ties to even; NaN stays NaN) and returns the 16 bits.
template <class D, class V = hn::Vec<D>>
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, D>> RoundToBf16(D /*d*/, V v) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::BitCast(du, v);
  const auto upper = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(upper, hn::Set(du, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff))));
  const auto nan = hn::Or(upper, hn::Set(du, 0x40));
  const auto is_nan = hn::RebindMask(du, hn::IsNaN(v));
  return hn::DemoteTo(d16, hn::BitCast(di, hn::IfThenElse(is_nan, nan, rounded)));
}

}  // namespace HWY_NAMESPACE
}  // namespace antiphon
HWY_AFTER_NAMESPACE();

#endif
