#include <algorithm>
#include <vector>

#include "kernels/parallel.h"
#include "kernels/reductions.h"
#include "kernels/shapes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reductions_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "math/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace antiphon {
namespace HWY_NAMESPACE {

using FloatTag = hn::ScalableTag<float>;

// One strip of columns narrow enough for its sums to stay in registers or the first cache.
void ColumnSumsStrip(float scale, const float* x, int64_t rows, int64_t stride, int64_t cols, const float* weights,
                     float accumulate, float* sums) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto finish = [&](auto sum, auto old) HWY_ATTR {
    const auto scaled = hn::Mul(sum, hn::Set(d, scale));
    return accumulate == 0 ? scaled : hn::MulAdd(old, hn::Set(d, accumulate), scaled);
  };
  int64_t c = 0;
  for (; c + 4 * lanes <= cols; c += 4 * lanes) {
    auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
    const float* p = x + c;
    for (int64_t r = 0; r < rows; ++r, p += stride) {
      const auto w = hn::Set(d, weights != nullptr ? weights[r] : 1.0f);
      s0 = hn::MulAdd(hn::LoadU(d, p), w, s0);
      s1 = hn::MulAdd(hn::LoadU(d, p + lanes), w, s1);
      s2 = hn::MulAdd(hn::LoadU(d, p + 2 * lanes), w, s2);
      s3 = hn::MulAdd(hn::LoadU(d, p + 3 * lanes), w, s3);
    }
    float* out = sums + c;
    hn::StoreU(finish(s0, hn::LoadU(d, out)), d, out);
    hn::StoreU(finish(s1, hn::LoadU(d, out + lanes)), d, out + lanes);
    hn::StoreU(finish(s2, hn::LoadU(d, out + 2 * lanes)), d, out + 2 * lanes);
    hn::StoreU(finish(s3, hn::LoadU(d, out + 3 * lanes)), d, out + 3 * lanes);
  }
  for (; c < cols; c += lanes) {
    const int64_t count = std::min(lanes, cols - c);
    auto sum = hn::Zero(d);
    for (int64_t r = 0; r < rows; ++r) {
      const auto w = hn::Set(d, weights != nullptr ? weights[r] : 1.0f);
      sum = hn::MulAdd(LoadFirst(d, x + r * stride + c, count), w, sum);
    }
    StoreFirst(d, finish(sum, LoadFirst(d, sums + c, count)), sums + c, count);
  }
}

double SumSquaresBlock(const float* x, int64_t n) {
  const FloatTag d;
  auto sum = hn::Zero(d);
  ForVectors(d, n, [&](auto load, auto) HWY_ATTR {
    const auto v = load(x);
    sum = hn::MulAdd(v, v, sum);
  });
  return static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
}

}  // namespace HWY_NAMESPACE
}  // namespace antiphon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace antiphon {
namespace {

HWY_EXPORT(ColumnSumsStrip);
HWY_EXPORT(SumSquaresBlock);

constexpr int64_t kBlock = 4096;

void ColumnSumsCpu(float scale, ConstMatrixView x, const float* weights, float accumulate, MatrixView sums) {
  ExpectSameShape("column sums", ConstMatrixView(nullptr, 1, x.cols()), sums);
  // Boundaries at multiples of 64 columns: the vector body treats every column alike, so ranges do not show in the
  // sums.
  ParallelRanges(x.cols(), x.rows(), 64, [&](int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(ColumnSumsStrip)
    (scale, x.data() + first, x.rows(), x.stride(), last - first, weights, accumulate, sums.data() + first);
  });
}

double SumSquaresCpu(ConstMatrixView x) {
  const bool flat = x.contiguous();
  const int64_t rows = flat ? 1 : x.rows();
  const int64_t cols = flat ? x.size() : x.cols();
  const int64_t blocks_per_row = (cols + kBlock - 1) / kBlock;
  std::vector<double> partial(static_cast<size_t>(rows * blocks_per_row));
  ParallelRanges(rows * blocks_per_row, std::min(cols, kBlock), 1, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) {
      const int64_t start = b % blocks_per_row * kBlock;
      partial[static_cast<size_t>(b)] = HWY_DYNAMIC_DISPATCH(SumSquaresBlock)(
          x.data() + b / blocks_per_row * x.stride() + start, std::min(kBlock, cols - start));
    }
  });
  double sum = 0;
  for (const double p : partial) sum += p;
  return sum;
}

void RowSquaresCpu(ConstMatrixView x, double* sums) {
  ParallelRanges(x.rows(), x.cols(), 1, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      sums[r] = 0;
      for (int64_t start = 0; start < x.cols(); start += kBlock) {
        sums[r] += HWY_DYNAMIC_DISPATCH(SumSquaresBlock)(x.Row(r).data() + start, std::min(kBlock, x.cols() - start));
      }
    }
  });
}

REGISTER_KERNEL(ColumnSumsOp, DeviceKind::kCpu, DataType::kFloat32, "highway", 1, &ColumnSumsCpu);
REGISTER_KERNEL(SumSquaresOp, DeviceKind::kCpu, DataType::kFloat32, "highway", 1, &SumSquaresCpu);
REGISTER_KERNEL(RowSquaresOp, DeviceKind::kCpu, DataType::kFloat32, "highway", 1, &RowSquaresCpu);

}  // namespace
}  // namespace antiphon
#endif
