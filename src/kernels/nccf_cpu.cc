#include "base/check.h"
#include "kernels/nccf.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nccf_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

// Below foreach_target.h, which includes this file once per instruction set.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace antiphon {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, kLagLanes>;
using V = hn::Vec<D>;

void CorrelateImpl(const float* x, int size, int first_lag, int num_lags, float* product, float* energy) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < static_cast<size_t>(num_lags); i += lanes) {
    const float* y = x + first_lag + i;
    V product0 = hn::Zero(d), product1 = hn::Zero(d), energy0 = hn::Zero(d), energy1 = hn::Zero(d);
    int t = 0;
    for (; t + 2 <= size; t += 2) {
      const V y0 = hn::LoadU(d, y + t), y1 = hn::LoadU(d, y + t + 1);
      product0 = hn::MulAdd(hn::Set(d, x[t]), y0, product0);
      product1 = hn::MulAdd(hn::Set(d, x[t + 1]), y1, product1);
      energy0 = hn::MulAdd(y0, y0, energy0);
      energy1 = hn::MulAdd(y1, y1, energy1);
    }
    if (t < size) {
      const V y0 = hn::LoadU(d, y + t);
      product0 = hn::MulAdd(hn::Set(d, x[t]), y0, product0);
      energy0 = hn::MulAdd(y0, y0, energy0);
    }
    hn::StoreU(hn::Add(product0, product1), d, product + i);
    hn::StoreU(hn::Add(energy0, energy1), d, energy + i);
  }
}

void GroupedImpl(const GroupedMatrix& matrix, const float* in, float* out) {
  const D d;
  const float* weights = matrix.weights.data();
  for (size_t g = 0; g < matrix.first.size(); ++g) {
    const float* x = in + matrix.first[g];
    for (size_t column = 0; column < kLagLanes; column += hn::Lanes(d)) {
      const float* w = weights + column;
      V sum0 = hn::Zero(d), sum1 = hn::Zero(d);
      int j = 0;
      for (; j + 2 <= matrix.count[g]; j += 2) {
        sum0 = hn::MulAdd(hn::Set(d, x[j]), hn::LoadU(d, w + j * kLagLanes), sum0);
        sum1 = hn::MulAdd(hn::Set(d, x[j + 1]), hn::LoadU(d, w + (j + 1) * kLagLanes), sum1);
      }
      if (j < matrix.count[g]) sum0 = hn::MulAdd(hn::Set(d, x[j]), hn::LoadU(d, w + j * kLagLanes), sum0);
      hn::StoreU(hn::Add(sum0, sum1), d, out + g * kLagLanes + column);
    }
    weights += matrix.count[g] * kLagLanes;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace antiphon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace antiphon {
namespace {
HWY_EXPORT(CorrelateImpl);
HWY_EXPORT(GroupedImpl);
}  // namespace

void CorrelateLags(const float* x, int size, int first_lag, int num_lags, float* product, float* energy) {
  CHECK_EQ(num_lags % kLagLanes, 0);
  HWY_DYNAMIC_DISPATCH(CorrelateImpl)(x, size, first_lag, num_lags, product, energy);
}

void GroupedTimesVector(const GroupedMatrix& matrix, const float* in, float* out) {
  HWY_DYNAMIC_DISPATCH(GroupedImpl)(matrix, in, out);
}

}  // namespace antiphon
#endif
