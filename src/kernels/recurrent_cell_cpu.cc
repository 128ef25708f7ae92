#include "kernels/parallel.h"
#include "kernels/recurrent_cell.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrent_cell_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "math/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace antiphon {
namespace HWY_NAMESPACE {

using FloatTag = hn::ScalableTag<float>;
using V = hn::Vec<FloatTag>;

HWY_INLINE V Sigmoid(FloatTag d, V x) {
  const V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, ExpKeepingNaN(d, hn::Neg(x))));
}
// (1 − e^−2|x|)/(1 + e^−2|x|) would lose the small ones: Highway's keeps them.
HWY_INLINE V Tanh(FloatTag d, V x) { return hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(d, x)); }
// y·(1 − y)
HWY_INLINE V Logistic(V y) { return hn::NegMulAdd(y, y, y); }

// Cells first … last − 1 of all streams.
void LstmForwardCells(const LstmForward& a, int64_t first, int64_t last) {
  const FloatTag d;
  const int64_t n = a.cell.cols();
  const bool peeps = !a.peepholes.empty();
  const float* const w = peeps ? a.peepholes.data() + first : nullptr;
  const int64_t w_stride = a.peepholes.stride();
  for (int64_t s = 0; s < a.cell.rows(); ++s) {
    float* const i_at = a.gates.Row(s).data() + first;
    const float* const old_at = a.old_cell.Row(s).data() + first;
    float* const cell_at = a.cell.Row(s).data() + first;
    float* const tanh_at = a.cell_tanh.Row(s).data() + first;
    float* const out_at = a.output.Row(s).data() + first;
    ForVectors(d, last - first, [&](auto load, auto store) HWY_ATTR {
      const V old = load(old_at);
      V i = load(i_at), f = load(i_at + n), o = load(i_at + 3 * n);
      if (peeps) {
        i = hn::MulAdd(load(w), old, i);
        f = hn::MulAdd(load(w + w_stride), old, f);
      }
      i = Sigmoid(d, i);
      f = Sigmoid(d, f);
      const V g = Tanh(d, load(i_at + 2 * n));
      const V cell = hn::MulAdd(f, old, hn::Mul(i, g));
      if (peeps) o = hn::MulAdd(load(w + 2 * w_stride), cell, o);
      o = Sigmoid(d, o);
      const V tanh_c = Tanh(d, cell);
      store(i, i_at);
      store(f, i_at + n);
      store(g, i_at + 2 * n);
      store(o, i_at + 3 * n);
      store(cell, cell_at);
      store(tanh_c, tanh_at);
      store(hn::Mul(o, tanh_c), out_at);
    });
  }
}

void LstmBackwardCells(const LstmBackward& a, int64_t first, int64_t last) {
  const FloatTag d;
  const int64_t n = a.cell.cols();
  const bool peeps = !a.peepholes.empty();
  const float* const w = peeps ? a.peepholes.data() + first : nullptr;
  const int64_t w_stride = a.peepholes.stride();
  float* const sums = peeps ? a.peephole_sums.data() + first : nullptr;
  const int64_t sums_stride = a.peephole_sums.stride();
  const V one = hn::Set(d, 1.0f);
  const V limit = hn::Set(d, a.clip);
  for (int64_t s = 0; s < a.cell.rows(); ++s) {
    float* const i_at = a.gates.Row(s).data() + first;
    const float* const old_at = a.old_cell.Row(s).data() + first;
    const float* const cell_at = a.cell.Row(s).data() + first;
    const float* const tanh_at = a.cell_tanh.Row(s).data() + first;
    const float* const dm_at = a.d_output.Row(s).data() + first;
    float* const dc_at = a.d_cell.Row(s).data() + first;
    ForVectors(d, last - first, [&](auto load, auto store) HWY_ATTR {
      const V i = load(i_at), f = load(i_at + n), g = load(i_at + 2 * n), o = load(i_at + 3 * n);
      const V old = load(old_at), tanh_c = load(tanh_at), dm = load(dm_at);
      const V d_o = hn::Mul(hn::Mul(dm, tanh_c), Logistic(o));
      V dc = hn::MulAdd(hn::Mul(dm, o), hn::NegMulAdd(tanh_c, tanh_c, one), load(dc_at));
      if (peeps) dc = hn::MulAdd(d_o, load(w + 2 * w_stride), dc);
      const V d_i = hn::Mul(hn::Mul(dc, g), Logistic(i));
      const V d_f = hn::Mul(hn::Mul(dc, old), Logistic(f));
      const V d_g = hn::Mul(hn::Mul(dc, i), hn::NegMulAdd(g, g, one));
      V back = hn::Mul(dc, f);
      if (peeps) {
        back = hn::MulAdd(d_i, load(w), hn::MulAdd(d_f, load(w + w_stride), back));
        store(hn::MulAdd(d_i, old, load(sums)), sums);
        store(hn::MulAdd(d_f, old, load(sums + sums_stride)), sums + sums_stride);
        store(hn::MulAdd(d_o, load(cell_at), load(sums + 2 * sums_stride)), sums + 2 * sums_stride);
      }
      if (a.clip > 0) back = hn::Min(hn::Max(back, hn::Neg(limit)), limit);
      store(d_i, i_at);
      store(d_f, i_at + n);
      store(d_g, i_at + 2 * n);
      store(d_o, i_at + 3 * n);
      store(back, dc_at);
    });
  }
}

void GruForwardCells(const GruForward& a, int64_t first, int64_t last) {
  const FloatTag d;
  const int64_t n = a.output.cols();
  for (int64_t s = 0; s < a.output.rows(); ++s) {
    float* const gates = a.gates.Row(s).data() + first;
    const float* const u = a.product.Row(s).data() + first;
    const float* const old_at = a.old_output.Row(s).data() + first;
    float* const out_at = a.output.Row(s).data() + first;
    ForVectors(d, last - first, [&](auto load, auto store) HWY_ATTR {
      const V r = Sigmoid(d, hn::Add(load(gates), load(u)));
      const V z = Sigmoid(d, hn::Add(load(gates + n), load(u + n)));
      const V candidate = Tanh(d, hn::MulAdd(r, load(u + 2 * n), load(gates + 2 * n)));
      store(r, gates);
      store(z, gates + n);
      store(candidate, gates + 2 * n);
      store(hn::MulAdd(z, hn::Sub(load(old_at), candidate), candidate), out_at);
    });
  }
}

void GruBackwardCells(const GruBackward& a, int64_t first, int64_t last) {
  const FloatTag d;
  const int64_t n = a.d_output.cols();
  const V one = hn::Set(d, 1.0f);
  for (int64_t s = 0; s < a.d_output.rows(); ++s) {
    float* const gates = a.gates.Row(s).data() + first;
    float* const u = a.product.Row(s).data() + first;
    const float* const old_at = a.old_output.Row(s).data() + first;
    const float* const dh_at = a.d_output.Row(s).data() + first;
    float* const back_at = a.d_old_output.Row(s).data() + first;
    ForVectors(d, last - first, [&](auto load, auto store) HWY_ATTR {
      const V r = load(gates), z = load(gates + n), candidate = load(gates + 2 * n), dh = load(dh_at);
      const V d_n = hn::Mul(hn::Mul(dh, hn::Sub(one, z)), hn::NegMulAdd(candidate, candidate, one));
      const V d_z = hn::Mul(hn::Mul(dh, hn::Sub(load(old_at), candidate)), Logistic(z));
      const V d_r = hn::Mul(hn::Mul(d_n, load(u + 2 * n)), Logistic(r));
      store(d_r, gates);
      store(d_z, gates + n);
      store(d_n, gates + 2 * n);
      store(d_r, u);
      store(d_z, u + n);
      store(hn::Mul(d_n, r), u + 2 * n);
      store(hn::Mul(dh, z), back_at);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace antiphon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace antiphon {
namespace {

HWY_EXPORT(LstmForwardCells);
HWY_EXPORT(LstmBackwardCells);
HWY_EXPORT(GruForwardCells);
HWY_EXPORT(GruBackwardCells);

// Threads share the cells, so that sums over streams are in one order.
template <class Body>
void ForCells(int64_t streams, int64_t cells, Body body) {
  constexpr int64_t kWorkPerCell = 16;
  ParallelRanges(cells, streams * kWorkPerCell, 64, body);
}

void LstmForwardCpu(const LstmForward& a) {
  ForCells(a.cell.rows(), a.cell.cols(), [&](int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(LstmForwardCells)(a, first, last);
  });
}
void LstmBackwardCpu(const LstmBackward& a) {
  ForCells(a.cell.rows(), a.cell.cols(), [&](int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(LstmBackwardCells)(a, first, last);
  });
}
void GruForwardCpu(const GruForward& a) {
  ForCells(a.output.rows(), a.output.cols(), [&](int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(GruForwardCells)(a, first, last);
  });
}
void GruBackwardCpu(const GruBackward& a) {
  ForCells(a.d_output.rows(), a.d_output.cols(), [&](int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(GruBackwardCells)(a, first, last);
  });
}

REGISTER_KERNEL(LstmForwardOp, DeviceKind::kCpu, DataType::kFloat32, "highway", 1, &LstmForwardCpu);
REGISTER_KERNEL(LstmBackwardOp, DeviceKind::kCpu, DataType::kFloat32, "highway", 1, &LstmBackwardCpu);
REGISTER_KERNEL(GruForwardOp, DeviceKind::kCpu, DataType::kFloat32, "highway", 1, &GruForwardCpu);
REGISTER_KERNEL(GruBackwardOp, DeviceKind::kCpu, DataType::kFloat32, "highway", 1, &GruBackwardCpu);

}  // namespace
}  // namespace antiphon
#endif
