#include "hmm/gmm_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "hmm/gmm_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "hwy/contrib/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace antiphon::hmm::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kLanes = 16;
using Tag = hn::CappedTag<float, kLanes>;

template <int kCount>
void Gaussians(const float* HWY_RESTRICT coefficients, const float* HWY_RESTRICT constants, size_t two_dim,
               const float* HWY_RESTRICT block, float* HWY_RESTRICT out) {
  const Tag d;
  for (size_t v = 0; v < kLanes; v += hn::Lanes(d)) {
    auto a0 = hn::Set(d, constants[0]);
    auto a1 = hn::Set(d, constants[kCount > 1 ? 1 : 0]);
    auto a2 = hn::Set(d, constants[kCount > 2 ? 2 : 0]);
    auto a3 = hn::Set(d, constants[kCount > 3 ? 3 : 0]);
    for (size_t k = 0; k < two_dim; ++k) {
      const auto x = hn::LoadU(d, block + k * kLanes + v);
      a0 = hn::MulAdd(hn::Set(d, coefficients[k]), x, a0);
      if constexpr (kCount > 1) a1 = hn::MulAdd(hn::Set(d, coefficients[two_dim + k]), x, a1);
      if constexpr (kCount > 2) a2 = hn::MulAdd(hn::Set(d, coefficients[2 * two_dim + k]), x, a2);
      if constexpr (kCount > 3) a3 = hn::MulAdd(hn::Set(d, coefficients[3 * two_dim + k]), x, a3);
    }
    hn::StoreU(a0, d, out + v);
    if constexpr (kCount > 1) hn::StoreU(a1, d, out + kLanes + v);
    if constexpr (kCount > 2) hn::StoreU(a2, d, out + 2 * kLanes + v);
    if constexpr (kCount > 3) hn::StoreU(a3, d, out + 3 * kLanes + v);
  }
}

void GaussianBlockImpl(const float* coefficients, const float* constants, int count, int two_dim, const float* block,
                       float* out) {
  const auto width = static_cast<size_t>(two_dim);
  int g = 0;
  for (; g + 4 <= count; g += 4) {
    Gaussians<4>(coefficients, constants + g, width, block, out);
    coefficients += 4 * width;
    out += 4 * kLanes;
  }
  if (count - g == 3) Gaussians<3>(coefficients, constants + g, width, block, out);
  if (count - g == 2) Gaussians<2>(coefficients, constants + g, width, block, out);
  if (count - g == 1) Gaussians<1>(coefficients, constants + g, width, block, out);
}

void LogSumBlockImpl(const float* values, int count, float* out) {
  const Tag d;
  for (size_t v = 0; v < kLanes; v += hn::Lanes(d)) {
    auto most = hn::LoadU(d, values + v);
    for (int g = 1; g < count; ++g) most = hn::Max(most, hn::LoadU(d, values + static_cast<size_t>(g) * kLanes + v));
    auto sum = hn::Zero(d);
    for (int g = 0; g < count; ++g) {
      sum = hn::Add(sum, hn::Exp(d, hn::Sub(hn::LoadU(d, values + static_cast<size_t>(g) * kLanes + v), most)));
    }
    hn::StoreU(hn::Add(most, hn::Log(d, sum)), d, out + v);
  }
}

void PosteriorBlockImpl(float* values, int count, float* out) {
  LogSumBlockImpl(values, count, out);
  const Tag d;
  for (size_t v = 0; v < kLanes; v += hn::Lanes(d)) {
    const auto total = hn::LoadU(d, out + v);
    for (int g = 0; g < count; ++g) {
      float* at = values + static_cast<size_t>(g) * kLanes + v;
      hn::StoreU(hn::Exp(d, hn::Sub(hn::LoadU(d, at), total)), d, at);
    }
  }
}

}  // namespace antiphon::hmm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace antiphon::hmm {

HWY_EXPORT(GaussianBlockImpl);
HWY_EXPORT(LogSumBlockImpl);
HWY_EXPORT(PosteriorBlockImpl);

void GaussianBlock(const float* coefficients, const float* constants, int count, int two_dim, const float* block,
                   float* out) {
  HWY_DYNAMIC_DISPATCH(GaussianBlockImpl)(coefficients, constants, count, two_dim, block, out);
}
void LogSumBlock(const float* values, int count, float* out) {
  HWY_DYNAMIC_DISPATCH(LogSumBlockImpl)(values, count, out);
}
void PosteriorBlock(float* values, int count, float* out) {
  HWY_DYNAMIC_DISPATCH(PosteriorBlockImpl)(values, count, out);
}

}  // namespace antiphon::hmm
#endif
