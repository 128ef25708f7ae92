#include "kernels/dense_epilogue.h"

#define HWY_DISABLED_TARGETS HWY_SSSE3
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dense_epilogue_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "math/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace antiphon {
namespace HWY_NAMESPACE {

using FloatTag = hn::CappedTag<float, 16>;
using IntTag = hn::RebindToSigned<FloatTag>;
using V = hn::Vec<FloatTag>;

// Multiplications and additions stay apart, as in the reference: fused ones would differ between instruction sets.
HWY_INLINE V Exp(FloatTag d, V x) {
  using namespace epilogue;
  const IntTag di;
  x = hn::Min(hn::Max(x, hn::Set(d, kLeast)), hn::Set(d, kLargest));
  const V n = hn::Round(hn::Mul(x, hn::Set(d, kLog2E)));
  const V r = hn::Sub(hn::Sub(x, hn::Mul(n, hn::Set(d, kLn2High))), hn::Mul(n, hn::Set(d, kLn2Low)));
  V p = hn::Set(d, kPolynomial[0]);
  for (int i = 1; i < 6; ++i) p = hn::Add(hn::Mul(p, r), hn::Set(d, kPolynomial[i]));
  p = hn::Add(hn::Add(hn::Mul(hn::Mul(p, r), r), r), hn::Set(d, 1.0F));
  const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127)));
  return hn::Mul(p, hn::BitCast(d, exponent));
}

HWY_INLINE V Sigmoid(FloatTag d, V x) {
  const V one = hn::Set(d, 1.0F);
  return hn::Div(one, hn::Add(one, Exp(d, hn::Neg(x))));
}

template <Activation kActivation>
HWY_INLINE V Activate(FloatTag d, V x) {
  if constexpr (kActivation == Activation::kRelu) {
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
  } else if constexpr (kActivation == Activation::kSigmoid) {
    return hn::IfThenElse(hn::IsNaN(x), x, Sigmoid(d, x));
  } else if constexpr (kActivation == Activation::kTanh) {
    const V two = hn::Set(d, 2.0F);
    const V y = hn::Sub(hn::Mul(two, Sigmoid(d, hn::Mul(two, x))), hn::Set(d, 1.0F));
    return hn::IfThenElse(hn::IsNaN(x), x, y);
  } else {
    return x;
  }
}

HWY_INLINE void QuantizeVector(FloatTag d, V x, V scale, V zero, uint8_t* out) {
  const IntTag di;
  const hn::Rebind<uint8_t, FloatTag> d8;
  V y = hn::Add(hn::Round(hn::Mul(x, scale)), zero);
  y = hn::Min(hn::Max(y, hn::Zero(d)), hn::Set(d, 255.0F));
  hn::StoreU(hn::DemoteTo(d8, hn::ConvertTo(di, y)), d8, out);
}

// Of the rows' factors on one vector of columns: those of consecutive rows that share them are loaded once.
class Factors {
 public:
  HWY_INLINE Factors(const DenseEpilogueArgs& args, int64_t column)
      : rows_(args.row_factors), column_(args.first_factor + column), values_(hn::Set(FloatTag(), 1.0F)) {}

  HWY_INLINE V On(V y, int row) {
    const FloatTag d;
    if (rows_ == nullptr) return y;
    if (rows_[row] != loaded_) {
      loaded_ = rows_[row];
      values_ = hn::Set(d, 1.0F);
      if (loaded_ != nullptr) {
        values_ = hn::LoadU(d, loaded_ + column_);
        __builtin_prefetch(loaded_ + column_ + 64);
      }
    }
    return hn::Mul(y, values_);
  }

 private:
  const float* const* rows_;
  int64_t column_;
  const float* loaded_ = nullptr;
  V values_;
};

// Columns outside, so that what belongs to them is loaded once for all rows. `write(y, place)` puts a vector of the
// row's values where its first one belongs. What is written may be bytes, which to the compiler could be `args`: hence
// the copies.
template <class Sum, Activation kActivation, class Write>
HWY_INLINE void ForSums(const DenseEpilogueArgs& args, int64_t element, char* out, int64_t stride, Write write) {
  const FloatTag d;
  const IntTag di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int rows = args.rows;
  const float* const row_scale = args.row_scale;
  const int32_t* const row_zero = args.row_zero;
  for (int64_t c = 0; c < 64; c += lanes) {
    const Sum* sums = static_cast<const Sum*>(args.sums) + c;
    const V bias = hn::LoadU(d, args.bias + c);
    Factors factors(args, c);
    char* place = out + c * element;
    if constexpr (std::is_same_v<Sum, int32_t>) {
      const auto col_sum = hn::LoadU(di, args.col_sum + c);
      const V col_scale = hn::LoadU(d, args.col_scale + c);
      for (int r = 0; r < rows; ++r, sums += 64, place += stride) {
        const auto offset = hn::Mul(hn::Set(di, row_zero[r]), col_sum);
        const V scale = hn::Mul(hn::Set(d, row_scale[r]), col_scale);
        const V y = hn::Mul(hn::ConvertTo(d, hn::Sub(hn::LoadU(di, sums), offset)), scale);
        write(factors.On(Activate<kActivation>(d, hn::Add(y, bias)), r), place);
      }
    } else {
      for (int r = 0; r < rows; ++r, sums += 64, place += stride) {
        write(factors.On(Activate<kActivation>(d, hn::Add(hn::LoadU(d, sums), bias)), r), place);
      }
    }
  }
}

template <class Sum, Activation kActivation>
void WholePanel(const DenseEpilogueArgs& args, int64_t element, char* out, int64_t stride) {
  const FloatTag d;
  const hn::Rebind<uint16_t, FloatTag> d16;
  if (args.out_type == DataType::kFloat32) {
    ForSums<Sum, kActivation>(args, element, out, stride,
                              [&](V y, char* place) HWY_ATTR { hn::StoreU(y, d, reinterpret_cast<float*>(place)); });
  } else if (args.out_type == DataType::kBf16) {
    ForSums<Sum, kActivation>(args, element, out, stride, [&](V y, char* place) HWY_ATTR {
      hn::StoreU(RoundToBf16(d, y), d16, reinterpret_cast<uint16_t*>(place));
    });
  } else {
    const V scale = hn::Set(d, args.out_scale), zero = hn::Set(d, args.out_zero);
    ForSums<Sum, kActivation>(args, element, out, stride, [&](V y, char* place) HWY_ATTR {
      QuantizeVector(d, y, scale, zero, reinterpret_cast<uint8_t*>(place));
    });
  }
}

template <class Sum, Activation kActivation>
void EpilogueOf(const DenseEpilogueArgs& args) {
  const int64_t element = args.out_type == DataType::kFloat32 ? 4 : (args.out_type == DataType::kBf16 ? 2 : 1);
  char* const out = static_cast<char*>(args.out);
  if (args.cols == 64) return WholePanel<Sum, kActivation>(args, element, out, args.out_stride);
  // The last panel has room for fewer columns.
  HWY_ALIGN char whole[64 * sizeof(float)];
  DenseEpilogueArgs row = args;
  row.rows = 1;
  for (int r = 0; r < args.rows; ++r) {
    row.sums = static_cast<const Sum*>(args.sums) + r * 64;
    if (args.row_factors != nullptr) row.row_factors = args.row_factors + r;
    if constexpr (std::is_same_v<Sum, int32_t>) {
      row.row_scale = args.row_scale + r;
      row.row_zero = args.row_zero + r;
    }
    WholePanel<Sum, kActivation>(row, element, whole, 0);
    std::memcpy(out + r * args.out_stride, whole, static_cast<size_t>(args.cols * element));
  }
}

template <class Sum>
void Epilogue(const DenseEpilogueArgs& args) {
  switch (args.activation) {
    case Activation::kRelu:
      return EpilogueOf<Sum, Activation::kRelu>(args);
    case Activation::kSigmoid:
      return EpilogueOf<Sum, Activation::kSigmoid>(args);
    case Activation::kTanh:
      return EpilogueOf<Sum, Activation::kTanh>(args);
    default:
      return EpilogueOf<Sum, Activation::kNone>(args);
  }
}

void FloatEpilogue(const DenseEpilogueArgs& args) { Epilogue<float>(args); }
void IntEpilogue(const DenseEpilogueArgs& args) { Epilogue<int32_t>(args); }

// The last values of a row, and zeros. SSE4 has no masked loads, and Highway's read past the end there.
HWY_INLINE V LoadRest(FloatTag d, const float* x, int64_t count) {
  float rest[16] = {};
  std::copy_n(x, count, rest);
  return hn::LoadU(d, rest);
}

void QuantizeRow(const float* x, int64_t count, float scale, float zero, uint8_t* out) {
  const FloatTag d;
  const V vscale = hn::Set(d, scale), vzero = hn::Set(d, zero);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) QuantizeVector(d, hn::LoadU(d, x + i), vscale, vzero, out + i);
  if (i == count) return;
  uint8_t bytes[16];
  QuantizeVector(d, LoadRest(d, x + i, count - i), vscale, vzero, bytes);
  std::copy_n(bytes, count - i, out + i);
}

void RowRange(const float* x, int64_t count, float* least, float* largest) {
  const FloatTag d;
  V low = hn::Zero(d), high = hn::Zero(d);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto take = [&](V v) HWY_ATTR {
    low = hn::IfThenElse(hn::Lt(v, low), v, low);
    high = hn::IfThenElse(hn::Gt(v, high), v, high);
  };
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) take(hn::LoadU(d, x + i));
  if (i < count) take(LoadRest(d, x + i, count - i));
  *least = hn::GetLane(hn::MinOfLanes(d, low));
  *largest = hn::GetLane(hn::MaxOfLanes(d, high));
}

}  // namespace HWY_NAMESPACE
}  // namespace antiphon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace antiphon {
namespace {

#define ANTIPHON_REGISTER(ns, isa)                                                                    \
  REGISTER_KERNEL(DenseEpilogueOp, DeviceKind::kCpu, DataType::kFloat32, isa, 0, &ns::FloatEpilogue); \
  REGISTER_KERNEL(DenseEpilogueOp, DeviceKind::kCpu, DataType::kInt8, isa, 0, &ns::IntEpilogue);      \
  REGISTER_KERNEL(QuantizeRowOp, DeviceKind::kCpu, DataType::kInt8, isa, 0, &ns::QuantizeRow);        \
  REGISTER_KERNEL(RowRangeOp, DeviceKind::kCpu, DataType::kFloat32, isa, 0, &ns::RowRange)

#if HWY_TARGETS & HWY_NEON
ANTIPHON_REGISTER(N_NEON, "neon");
#endif
#if HWY_TARGETS & HWY_SSE4
ANTIPHON_REGISTER(N_SSE4, "sse4");
#endif
#if HWY_TARGETS & HWY_AVX2
ANTIPHON_REGISTER(N_AVX2, "avx2");
#endif
#if HWY_TARGETS & HWY_AVX3
ANTIPHON_REGISTER(N_AVX3, "avx512");
#endif

}  // namespace
}  // namespace antiphon
#endif
