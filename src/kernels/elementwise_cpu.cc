#include <tuple>

#include "kernels/elementwise.h"
#include "kernels/parallel.h"
#include "kernels/shapes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "math/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace antiphon {
namespace HWY_NAMESPACE {

using FloatTag = hn::ScalableTag<float>;
using V = hn::Vec<FloatTag>;

template <Activation kF>
HWY_INLINE V Derivative(FloatTag d, V y) {
  const V one = hn::Set(d, 1.0f);
  if constexpr (kF == Activation::kRelu) {
    return hn::IfThenElse(hn::IsNaN(y), y, hn::IfThenElseZero(hn::Gt(y, hn::Zero(d)), one));
  } else if constexpr (kF == Activation::kSigmoid) {
    return hn::Mul(y, hn::Sub(one, y));
  } else {
    return hn::Sub(one, hn::Mul(y, y));
  }
}

template <Activation kF>
void ForwardRow(const float* x, float* y, int64_t n) {
  const FloatTag d;
  ForVectors(d, n, [&](auto load, auto store) HWY_ATTR { store(Activated<kF>(d, load(x)), y); });
}

template <Activation kF>
void BackwardRow(const float* y, const float* dy, float* dx, int64_t n) {
  const FloatTag d;
  ForVectors(d, n, [&](auto load, auto store) HWY_ATTR { store(hn::Mul(load(dy), Derivative<kF>(d, load(y))), dx); });
}

void ForwardRowOf(Activation f, const float* x, float* y, int64_t n) {
  if (f == Activation::kRelu) return ForwardRow<Activation::kRelu>(x, y, n);
  if (f == Activation::kSigmoid) return ForwardRow<Activation::kSigmoid>(x, y, n);
  return ForwardRow<Activation::kTanh>(x, y, n);
}

void BackwardRowOf(Activation f, const float* y, const float* dy, float* dx, int64_t n) {
  if (f == Activation::kRelu) return BackwardRow<Activation::kRelu>(y, dy, dx, n);
  if (f == Activation::kSigmoid) return BackwardRow<Activation::kSigmoid>(y, dy, dx, n);
  return BackwardRow<Activation::kTanh>(y, dy, dx, n);
}

void ConvertRow(float scale, const float* x, uint16_t* y, int64_t n) {
  const FloatTag d;
  const hn::Rebind<uint16_t, FloatTag> d16;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V factor = hn::Set(d, scale);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(RoundToBf16(d, hn::Mul(factor, hn::LoadU(d, x + i))), d16, y + i);
  for (; i < n; ++i) y[i] = ToBf16(scale * x[i]).bits;
}

void ScaleRow(float scale, const float* x, float* y, int64_t n) {
  const FloatTag d;
  const V factor = hn::Set(d, scale);
  ForVectors(d, n, [&](auto load, auto store) HWY_ATTR { store(hn::Mul(factor, load(x)), y); });
}

void AddScaledRow(float scale, const float* x, float* y, int64_t n) {
  const FloatTag d;
  const V factor = hn::Set(d, scale);
  ForVectors(d, n, [&](auto load, auto store) HWY_ATTR { store(hn::MulAdd(factor, load(x), load(y)), y); });
}

}  // namespace HWY_NAMESPACE
}  // namespace antiphon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace antiphon {
namespace {

HWY_EXPORT(ForwardRowOf);
HWY_EXPORT(BackwardRowOf);
HWY_EXPORT(ConvertRow);
HWY_EXPORT(ScaleRow);
HWY_EXPORT(AddScaledRow);

// Contiguous matrices are one long row.
template <class Body, class... Views>
void ForRows(Body body, const Views&... views) {
  const auto& first_view = std::get<0>(std::tie(views...));
  const int64_t rows = first_view.rows();
  const int64_t cols = first_view.cols();
  if ((views.contiguous() && ...)) {
    constexpr int64_t kPiece = 1024;
    ParallelRanges(rows * cols, 1, kPiece,
                   [&](int64_t first, int64_t last) { body(last - first, views.data() + first...); });
    return;
  }
  ParallelRanges(rows, cols, 1, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) body(cols, views.data() + r * views.stride()...);
  });
}

void ForwardCpu(Activation f, ConstMatrixView x, MatrixView y) {
  ExpectSameShape("an activation", x, y);
  CHECK(f != Activation::kNone);
  ForRows([&](int64_t n, const float* xp, float* yp) { HWY_DYNAMIC_DISPATCH(ForwardRowOf)(f, xp, yp, n); }, x, y);
}

void BackwardCpu(Activation f, ConstMatrixView y, ConstMatrixView dy, MatrixView dx) {
  ExpectSameShape("an activation's derivative", y, dy);
  ExpectSameShape("an activation's derivative", y, dx);
  CHECK(f != Activation::kNone);
  ForRows(
      [&](int64_t n, const float* yp, const float* dyp, float* dxp) {
        HWY_DYNAMIC_DISPATCH(BackwardRowOf)
        (f, yp, dyp, dxp, n);
      },
      y, dy, dx);
}

void ConvertCpu(float scale, ConstMatrixView x, Bf16View y) {
  ExpectSameShape("conversion to bf16", x, y);
  if (x.empty()) return;  // there is no first element whose bits could be pointed at
  ForRows(
      [&](int64_t n, const float* xp, Bf16* yp) {
        HWY_DYNAMIC_DISPATCH(ConvertRow)
        (scale, xp, &yp->bits, n);
      },
      x, y);
}

void ScaleCpu(float scale, ConstMatrixView x, MatrixView y) {
  ExpectSameShape("scaling", x, y);
  ForRows([&](int64_t n, const float* xp, float* yp) { HWY_DYNAMIC_DISPATCH(ScaleRow)(scale, xp, yp, n); }, x, y);
}

void AddScaledCpu(float scale, ConstMatrixView x, MatrixView y) {
  ExpectSameShape("scaled addition", x, y);
  ForRows([&](int64_t n, const float* xp, float* yp) { HWY_DYNAMIC_DISPATCH(AddScaledRow)(scale, xp, yp, n); }, x, y);
}

REGISTER_KERNEL(ActivationForwardOp, DeviceKind::kCpu, DataType::kFloat32, "highway", 1, &ForwardCpu);
REGISTER_KERNEL(ActivationBackwardOp, DeviceKind::kCpu, DataType::kFloat32, "highway", 1, &BackwardCpu);
REGISTER_KERNEL(ConvertToBf16Op, DeviceKind::kCpu, DataType::kFloat32, "highway", 1, &ConvertCpu);
REGISTER_KERNEL(ScaleOp, DeviceKind::kCpu, DataType::kFloat32, "highway", 1, &ScaleCpu);
REGISTER_KERNEL(AddScaledOp, DeviceKind::kCpu, DataType::kFloat32, "highway", 1, &AddScaledCpu);

}  // namespace
}  // namespace antiphon
#endif
