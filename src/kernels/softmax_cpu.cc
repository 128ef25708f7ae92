#include <cmath>
#include <limits>

#include "kernels/parallel.h"
#include "kernels/shapes.h"
#include "kernels/softmax.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softmax_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "math/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace antiphon {
namespace HWY_NAMESPACE {

using FloatTag = hn::ScalableTag<float>;

float RowMax(const float* z, int64_t n) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto m0 = lowest, m1 = lowest;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    m0 = hn::Max(m0, hn::LoadU(d, z + i));
    m1 = hn::Max(m1, hn::LoadU(d, z + i + lanes));
  }
  for (; i < n; i += lanes) {
    const int64_t left = n - i < lanes ? n - i : lanes;
    const auto mask = hn::FirstN(d, static_cast<size_t>(left));
    m0 = hn::Max(m0, hn::IfThenElse(mask, LoadFirst(d, z + i, left), lowest));
  }
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(m0, m1)));
}

// e = exp(z − max) unless e is null; returns the sum.
float ExpSum(const float* z, float max, float* e, int64_t n) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto shift = hn::Set(d, max);
  auto s0 = hn::Zero(d), s1 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto e0 = ExpKeepingNaN(d, hn::Sub(hn::LoadU(d, z + i), shift));
    const auto e1 = ExpKeepingNaN(d, hn::Sub(hn::LoadU(d, z + i + lanes), shift));
    s0 = hn::Add(s0, e0);
    s1 = hn::Add(s1, e1);
    if (e != nullptr) {
      hn::StoreU(e0, d, e + i);
      hn::StoreU(e1, d, e + i + lanes);
    }
  }
  for (; i < n; i += lanes) {
    const int64_t left = n - i < lanes ? n - i : lanes;
    const auto mask = hn::FirstN(d, static_cast<size_t>(left));
    const auto e0 = ExpKeepingNaN(d, hn::Sub(LoadFirst(d, z + i, left), shift));
    s0 = hn::Add(s0, hn::IfThenElseZero(mask, e0));
    if (e != nullptr) StoreFirst(d, e0, e + i, left);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)));
}

void ScaleRow(float scale, float* y, int64_t n) {
  const FloatTag d;
  const auto factor = hn::Set(d, scale);
  ForVectors(d, n, [&](auto load, auto store) HWY_ATTR { store(hn::Mul(load(y), factor), y); });
}

// y = (z − max) − log_sum: in this order the logarithm stays exact where z is large.
void LogRow(const float* z, float max, float log_sum, float* y, int64_t n) {
  const FloatTag d;
  const auto first = hn::Set(d, max);
  const auto second = hn::Set(d, log_sum);
  ForVectors(d, n, [&](auto load, auto store) HWY_ATTR { store(hn::Sub(hn::Sub(load(z), first), second), y); });
}

void SoftmaxRow(bool log, const float* z, float* y, int64_t n) {
  const float max = RowMax(z, n);
  if (log) {
    const float sum = ExpSum(z, max, nullptr, n);
    return LogRow(z, max, std::log(sum), y, n);
  }
  const float sum = ExpSum(z, max, y, n);
  ScaleRow(1.0f / sum, y, n);
}

FrameLoss CrossEntropyRow(const float* z, int32_t target, float scale, float* dz, int64_t n) {
  const float max = RowMax(z, n);
  const float z_target = z[target];
  bool correct = z_target == max;
  for (int32_t c = 0; correct && c < target; ++c) correct = z[c] != max;
  const float sum = ExpSum(z, max, dz, n);
  const double loss = std::log(static_cast<double>(sum)) + static_cast<double>(max) - static_cast<double>(z_target);
  if (dz != nullptr) {
    ScaleRow(scale / sum, dz, n);
    dz[target] -= scale;
  }
  return {loss, correct};
}

}  // namespace HWY_NAMESPACE
}  // namespace antiphon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace antiphon {
namespace {

HWY_EXPORT(SoftmaxRow);
HWY_EXPORT(CrossEntropyRow);

void SoftmaxCpu(bool log, ConstMatrixView z, MatrixView y) {
  ExpectSameShape("a softmax", z, y);
  if (z.empty()) return;
  ParallelRanges(z.rows(), z.cols(), 1, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      HWY_DYNAMIC_DISPATCH(SoftmaxRow)(log, z.data() + r * z.stride(), y.data() + r * y.stride(), z.cols());
    }
  });
}

void CrossEntropyCpu(ConstMatrixView z, const int32_t* targets, const float* scales, FrameLoss* losses, MatrixView dz) {
  if (!dz.empty()) ExpectSameShape("a cross-entropy", z, dz);
  for (int64_t r = 0; r < z.rows(); ++r) {
    if (targets[r] < 0 || targets[r] >= z.cols()) {
      Throw<InputError>("frame {}: target {} is outside 0 … {}", r, targets[r], z.cols() - 1);
    }
  }
  ParallelRanges(z.rows(), z.cols(), 1, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      float* out = dz.empty() ? nullptr : dz.data() + r * dz.stride();
      losses[r] =
          HWY_DYNAMIC_DISPATCH(CrossEntropyRow)(z.data() + r * z.stride(), targets[r], scales[r], out, z.cols());
    }
  });
}

REGISTER_KERNEL(SoftmaxOp, DeviceKind::kCpu, DataType::kFloat32, "highway", 1, &SoftmaxCpu);
REGISTER_KERNEL(SoftmaxCrossEntropyOp, DeviceKind::kCpu, DataType::kFloat32, "highway", 1, &CrossEntropyCpu);

}  // namespace
}  // namespace antiphon
#endif
