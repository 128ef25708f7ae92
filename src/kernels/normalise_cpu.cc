#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/normalise.h"
#include "kernels/parallel.h"
#include "kernels/shapes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/normalise_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "math/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace antiphon {
namespace HWY_NAMESPACE {

using FloatTag = hn::ScalableTag<float>;

void AddRow(const float* x, int64_t cols, float* sums) {
  const FloatTag d;
  ForVectors(d, cols, [&](auto load, auto store) HWY_ATTR { store(hn::Add(load(sums), load(x)), sums); });
}

void AddSquaredDeviations(const float* x, const float* mean, int64_t cols, float* sums) {
  const FloatTag d;
  ForVectors(d, cols, [&](auto load, auto store) HWY_ATTR {
    const auto deviation = hn::Sub(load(x), load(mean));
    store(hn::MulAdd(deviation, deviation, load(sums)), sums);
  });
}

void AddCentred(const float* g, const float* x, const float* mean, int64_t cols, float* sums, float* products) {
  const FloatTag d;
  ForVectors(d, cols, [&](auto load, auto store) HWY_ATTR {
    const auto v = load(g);
    store(hn::Add(load(sums), v), sums);
    store(hn::MulAdd(v, hn::Sub(load(x), load(mean)), load(products)), products);
  });
}

void NormaliseRow(const float* x, const float* mean, const float* scale, const float* offset, int64_t cols, float* y) {
  const FloatTag d;
  ForVectors(d, cols, [&](auto load, auto store) HWY_ATTR {
    const auto z = hn::Mul(load(scale), hn::Sub(load(x), load(mean)));
    store(offset != nullptr ? hn::Add(z, load(offset)) : z, y);
  });
}

void DeriveRow(const float* g, const float* x, const float* mean, const float* scale, const float* a, const float* b,
               int64_t cols, float* dx) {
  const FloatTag d;
  ForVectors(d, cols, [&](auto load, auto store) HWY_ATTR {
    const auto centred = hn::Sub(load(x), load(mean));
    store(hn::Mul(load(scale), hn::NegMulAdd(load(b), centred, hn::Sub(load(g), load(a)))), dx);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace antiphon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace antiphon {
namespace {

HWY_EXPORT(AddRow);
HWY_EXPORT(AddSquaredDeviations);
HWY_EXPORT(AddCentred);
HWY_EXPORT(NormaliseRow);
HWY_EXPORT(DeriveRow);

// So few rows stay in the second cache for a second sweep.
constexpr int64_t kBlockRows = 128;

// Two rows of sums for each block.
class Partials {
 public:
  Partials(int64_t blocks, int64_t cols) : stride_((cols + 15) / 16 * 16) {
    static thread_local std::vector<float> kept;  // from call to call, of whoever calls the kernel
    kept.assign(static_cast<size_t>(blocks * 2 * stride_), 0.0f);
    sums_ = kept.data();
  }
  float* First(int64_t block) const { return sums_ + 2 * block * stride_; }
  float* Second(int64_t block) const { return First(block) + stride_; }

 private:
  int64_t stride_;
  float* sums_;
};

bool Counts(const uint8_t* counts, int64_t row) { return counts == nullptr || counts[row] != 0; }

// Calls body(block, first row, last row).
template <class Body>
void ForBlocks(int64_t rows, Body body) {
  ParallelPieces((rows + kBlockRows - 1) / kBlockRows, [&](int64_t block, int /*thread*/) {
    body(block, block * kBlockRows, std::min(rows, (block + 1) * kBlockRows));
  });
}

int64_t NumBlocks(int64_t rows) { return (rows + kBlockRows - 1) / kBlockRows; }

void ColumnMomentsCpu(ConstMatrixView x, const uint8_t* counts, double* mean, double* squares) {
  const int64_t cols = x.cols(), blocks = NumBlocks(x.rows());
  Partials partials(blocks, cols);
  std::vector<int64_t> counted(static_cast<size_t>(blocks), 0);
  ForBlocks(x.rows(), [&](int64_t block, int64_t first, int64_t last) {
    float* const means = partials.First(block);
    int64_t n = 0;
    for (int64_t r = first; r < last; ++r) {
      if (!Counts(counts, r)) continue;
      ++n;
      HWY_DYNAMIC_DISPATCH(AddRow)(x.Row(r).data(), cols, means);
    }
    counted[static_cast<size_t>(block)] = n;
    if (n == 0) return;
    for (int64_t c = 0; c < cols; ++c) means[c] /= static_cast<float>(n);
    for (int64_t r = first; r < last; ++r) {
      if (!Counts(counts, r)) continue;
      HWY_DYNAMIC_DISPATCH(AddSquaredDeviations)(x.Row(r).data(), means, cols, partials.Second(block));
    }
  });
  std::fill_n(mean, cols, 0.0);
  std::fill_n(squares, cols, 0.0);
  double n = 0;
  for (int64_t block = 0; block < blocks; ++block) {
    const auto more = static_cast<double>(counted[static_cast<size_t>(block)]);
    if (more == 0) continue;
    const float* const means = partials.First(block);
    const float* const deviations = partials.Second(block);
    for (int64_t c = 0; c < cols; ++c) {
      const double apart = static_cast<double>(means[c]) - mean[c];
      mean[c] += apart * more / (n + more);
      squares[c] += static_cast<double>(deviations[c]) + apart * apart * n * more / (n + more);
    }
    n += more;
  }
}

void CentredSumsCpu(ConstMatrixView g, ConstMatrixView x, const uint8_t* counts, const float* mean, MatrixView sums) {
  ExpectSameShape("centred sums", g, x);
  const int64_t cols = g.cols(), blocks = NumBlocks(g.rows());
  Partials partials(blocks, cols);
  ForBlocks(g.rows(), [&](int64_t block, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      if (!Counts(counts, r)) continue;
      HWY_DYNAMIC_DISPATCH(AddCentred)
      (g.Row(r).data(), x.Row(r).data(), mean, cols, partials.First(block), partials.Second(block));
    }
  });
  for (int64_t c = 0; c < cols; ++c) {
    double sum = 0, products = 0;
    for (int64_t block = 0; block < blocks; ++block) {
      sum += static_cast<double>(partials.First(block)[c]);
      products += static_cast<double>(partials.Second(block)[c]);
    }
    sums(0, c) = static_cast<float>(sum);
    sums(1, c) = static_cast<float>(products);
  }
}

void NormaliseCpu(ConstMatrixView x, const float* mean, const float* scale, const float* offset, MatrixView y) {
  ExpectSameShape("normalise", x, y);
  ParallelItems(x.rows(), x.size(), [&](int64_t r) {
    HWY_DYNAMIC_DISPATCH(NormaliseRow)(x.Row(r).data(), mean, scale, offset, x.cols(), y.Row(r).data());
  });
}

void NormaliseDerivativeCpu(ConstMatrixView g, ConstMatrixView x, const uint8_t* counts, const float* mean,
                            const float* scale, const float* a, const float* b, MatrixView dx) {
  ExpectSameShape("normalise", g, x);
  ExpectSameShape("normalise", g, dx);
  ParallelItems(dx.rows(), dx.size(), [&](int64_t r) {
    if (Counts(counts, r)) {
      HWY_DYNAMIC_DISPATCH(DeriveRow)
      (g.Row(r).data(), x.Row(r).data(), mean, scale, a, b, dx.cols(), dx.Row(r).data());
    } else {
      std::fill_n(dx.Row(r).data(), dx.cols(), 0.0f);
    }
  });
}

REGISTER_KERNEL(ColumnMomentsOp, DeviceKind::kCpu, DataType::kFloat32, "highway", 1, &ColumnMomentsCpu);
REGISTER_KERNEL(CentredSumsOp, DeviceKind::kCpu, DataType::kFloat32, "highway", 1, &CentredSumsCpu);
REGISTER_KERNEL(NormaliseOp, DeviceKind::kCpu, DataType::kFloat32, "highway", 1, &NormaliseCpu);
REGISTER_KERNEL(NormaliseDerivativeOp, DeviceKind::kCpu, DataType::kFloat32, "highway", 1, &NormaliseDerivativeCpu);

}  // namespace
}  // namespace antiphon
#endif
