#include "kernels/parallel.h"
#include "kernels/update.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/update_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "math/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace antiphon {
namespace HWY_NAMESPACE {

using FloatTag = hn::ScalableTag<float>;

void MomentumRange(const MomentumRates& rates, const float* g, float* v, float* w, int64_t n) {
  const FloatTag d;
  const auto momentum = hn::Set(d, rates.momentum);
  const auto decay = hn::Set(d, rates.decay);
  const auto shrink = hn::Set(d, rates.shrink);
  const auto rate = hn::Set(d, rates.rate);
  ForVectors(d, n, [&](auto load, auto store) HWY_ATTR {
    const auto weight = load(w);
    const auto gradient = hn::MulAdd(decay, weight, load(g));
    const auto velocity = hn::MulAdd(momentum, load(v), gradient);
    const auto step = rates.nesterov ? hn::MulAdd(momentum, velocity, gradient) : velocity;
    store(velocity, v);
    store(hn::NegMulAdd(rate, step, hn::Mul(shrink, weight)), w);
  });
}

void AdamRange(const AdamRates& rates, const float* g, float* m, float* s, float* w, int64_t n) {
  const FloatTag d;
  const auto beta1 = hn::Set(d, rates.beta1);
  const auto beta2 = hn::Set(d, rates.beta2);
  const auto rest1 = hn::Set(d, 1 - rates.beta1);
  const auto rest2 = hn::Set(d, 1 - rates.beta2);
  const auto c1 = hn::Set(d, rates.rate * rates.correction1);
  const auto c2 = hn::Set(d, rates.correction2);
  const auto epsilon = hn::Set(d, rates.epsilon);
  const auto decay = hn::Set(d, rates.decay);
  const auto shrink = hn::Set(d, rates.shrink);
  ForVectors(d, n, [&](auto load, auto store) HWY_ATTR {
    const auto weight = load(w);
    const auto gradient = hn::MulAdd(decay, weight, load(g));
    const auto mean = hn::MulAdd(beta1, load(m), hn::Mul(rest1, gradient));
    const auto square = hn::MulAdd(beta2, load(s), hn::Mul(rest2, hn::Mul(gradient, gradient)));
    store(mean, m);
    store(square, s);
    const auto step = hn::Div(hn::Mul(c1, mean), hn::Add(hn::Sqrt(hn::Mul(square, c2)), epsilon));
    store(hn::Sub(hn::Mul(shrink, weight), step), w);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace antiphon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace antiphon {
namespace {

HWY_EXPORT(MomentumRange);
HWY_EXPORT(AdamRange);

constexpr int64_t kPiece = 1024;

void MomentumCpu(const MomentumRates& rates, const float* g, float* v, float* w, int64_t n) {
  ParallelRanges(n, 1, kPiece, [&](int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(MomentumRange)(rates, g + first, v + first, w + first, last - first);
  });
}

void AdamCpu(const AdamRates& rates, const float* g, float* m, float* s, float* w, int64_t n) {
  ParallelRanges(n, 1, kPiece, [&](int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(AdamRange)(rates, g + first, m + first, s + first, w + first, last - first);
  });
}

REGISTER_KERNEL(MomentumStepOp, DeviceKind::kCpu, DataType::kFloat32, "highway", 1, &MomentumCpu);
REGISTER_KERNEL(AdamStepOp, DeviceKind::kCpu, DataType::kFloat32, "highway", 1, &AdamCpu);

}  // namespace
}  // namespace antiphon
#endif
