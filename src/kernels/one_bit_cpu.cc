#include "kernels/one_bit.h"
#include "kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/one_bit_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

#include "math/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace antiphon {
namespace HWY_NAMESPACE {

// At most sixteen floats, so that a strip is a whole number of vectors.
using FloatTag = hn::CappedTag<float, 16>;
using Vector = hn::Vec<FloatTag>;

// Calls body(i, load, store) for the vectors that cover `width` ≤ 64 floats; i counts floats.
template <class Body>
HWY_INLINE void ForStripVectors(int64_t width, Body body) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < width; i += lanes) {
    const int64_t count = std::min(lanes, width - i);
    body(
        i, [&](const float* p) HWY_ATTR { return LoadFirst(d, p + i, count); },
        [&](Vector v, float* p) HWY_ATTR { StoreFirst(d, v, p + i, count); });
  }
}

// Sixteen columns at a time stay in registers while the rows go by; the strip's remainders stay in the cache for the
// second pass.
template <bool kWhole>
HWY_INLINE uint64_t AddRow(int64_t width, const float* x, float* remainder, float* sums) {
  const FloatTag d;
  float* above = sums;
  float* below = sums + kOneBitStrip;
  float* count = sums + 2 * kOneBitStrip;
  const auto one = hn::Set(d, 1.0f);
  uint64_t bits = 0;
  const auto add = [&](int64_t i, Vector u) HWY_ATTR {
    const auto at_or_above = hn::Ge(u, hn::Zero(d));
    hn::Store(hn::Add(hn::Load(d, above + i), hn::IfThenElseZero(at_or_above, u)), d, above + i);
    hn::Store(hn::Add(hn::Load(d, below + i), hn::IfThenZeroElse(at_or_above, u)), d, below + i);
    hn::Store(hn::Add(hn::Load(d, count + i), hn::IfThenElseZero(at_or_above, one)), d, count + i);
    uint8_t bytes[8] = {};
    hn::StoreMaskBits(d, at_or_above, bytes);
    uint64_t word = 0;
    std::memcpy(&word, bytes, sizeof(word));
    bits |= word << i;
  };
  if constexpr (kWhole) {
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t i = 0; i < kOneBitStrip; i += lanes) {
      const auto u = hn::Add(hn::LoadU(d, x + i), hn::LoadU(d, remainder + i));
      hn::StoreU(u, d, remainder + i);
      add(i, u);
    }
  } else {
    ForStripVectors(width, [&](int64_t i, auto load, auto store) HWY_ATTR {
      const auto u = hn::Add(load(x), load(remainder));
      store(u, remainder);
      add(i, u);
    });
  }
  return bits;
}

template <bool kWhole>
HWY_INLINE void SubtractMeans(int64_t width, const float* means, float* remainder) {
  const FloatTag d;
  const auto rest = [&](int64_t i, Vector u) HWY_ATTR {
    const auto mean =
        hn::IfThenElse(hn::Ge(u, hn::Zero(d)), hn::Load(d, means + kOneBitStrip + i), hn::Load(d, means + i));
    return hn::Sub(u, mean);
  };
  if constexpr (kWhole) {
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t i = 0; i < kOneBitStrip; i += lanes) {
      hn::StoreU(rest(i, hn::LoadU(d, remainder + i)), d, remainder + i);
    }
  } else {
    ForStripVectors(width,
                    [&](int64_t i, auto load, auto store) HWY_ATTR { store(rest(i, load(remainder)), remainder); });
  }
}

template <bool kWhole>
void EncodeStrip(ConstMatrixView x, MatrixView remainder, MatrixView means, uint8_t* bits) {
  const int64_t width = x.cols();
  const auto row_bytes = static_cast<size_t>((width + 7) / 8);
  const uint64_t existing = width == kOneBitStrip ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
  // Sums of a block of rows in fp32, of the blocks in double: remainders of a column add up to zero.
  constexpr int64_t kBlock = 256;
  double above[kOneBitStrip] = {}, below[kOneBitStrip] = {}, count[kOneBitStrip] = {};
  for (int64_t first = 0; first < x.rows(); first += kBlock) {
    HWY_ALIGN float sums[3 * kOneBitStrip] = {};
    const int64_t last = std::min(x.rows(), first + kBlock);
    for (int64_t r = first; r < last; ++r) {
      const uint64_t row = AddRow<kWhole>(width, x.Row(r).data(), remainder.Row(r).data(), sums) & existing;
      std::memcpy(bits + static_cast<size_t>(r) * row_bytes, &row, row_bytes);
    }
    for (int64_t c = 0; c < width; ++c) {
      above[c] += static_cast<double>(sums[c]);
      below[c] += static_cast<double>(sums[kOneBitStrip + c]);
      count[c] += static_cast<double>(sums[2 * kOneBitStrip + c]);
    }
  }
  HWY_ALIGN float mean[2 * kOneBitStrip] = {};
  const auto rows = static_cast<double>(x.rows());
  for (int64_t c = 0; c < width; ++c) {
    mean[c] = means(0, c) = count[c] < rows ? static_cast<float>(below[c] / (rows - count[c])) : 0.0f;
    mean[kOneBitStrip + c] = means(1, c) = count[c] > 0 ? static_cast<float>(above[c] / count[c]) : 0.0f;
  }
  for (int64_t r = 0; r < x.rows(); ++r) SubtractMeans<kWhole>(width, mean, remainder.Row(r).data());
}

void EncodeStripImpl(ConstMatrixView x, MatrixView remainder, MatrixView means, uint8_t* bits) {
  if (x.cols() == kOneBitStrip) {
    EncodeStrip<true>(x, remainder, means, bits);
  } else {
    EncodeStrip<false>(x, remainder, means, bits);
  }
}

void DecodeStripImpl(ConstMatrixView means, const uint8_t* bits, MatrixView x) {
  const FloatTag d;
  const int64_t width = x.cols();
  const auto row_bytes = static_cast<size_t>((width + 7) / 8);
  HWY_ALIGN float mean[2 * kOneBitStrip] = {};
  for (int64_t c = 0; c < width; ++c) {
    mean[c] = means(0, c);
    mean[kOneBitStrip + c] = means(1, c);
  }
  for (int64_t r = 0; r < x.rows(); ++r) {
    uint64_t row = 0;
    std::memcpy(&row, bits + static_cast<size_t>(r) * row_bytes, row_bytes);
    float* out = x.Row(r).data();
    ForStripVectors(width, [&](int64_t i, auto, auto store) HWY_ATTR {
      const uint64_t word = row >> i;
      uint8_t bytes[8];
      std::memcpy(bytes, &word, sizeof(bytes));
      const auto mask = hn::LoadMaskBits(d, bytes);
      store(hn::IfThenElse(mask, hn::Load(d, mean + kOneBitStrip + i), hn::Load(d, mean + i)), out);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace antiphon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace antiphon {
namespace {

HWY_EXPORT(EncodeStripImpl);
HWY_EXPORT(DecodeStripImpl);

// Calls body(first column, width) for every strip, shared among the team.
template <class Body>
void ForStrips(int64_t rows, int64_t cols, Body body) {
  const int64_t strips = (cols + kOneBitStrip - 1) / kOneBitStrip;
  ParallelRanges(strips, rows * kOneBitStrip, 1, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) body(s * kOneBitStrip, std::min(kOneBitStrip, cols - s * kOneBitStrip));
  });
}

void EncodeCpu(ConstMatrixView x, MatrixView remainder, MatrixView means, uint8_t* bits) {
  ForStrips(x.rows(), x.cols(), [&](int64_t first, int64_t width) {
    HWY_DYNAMIC_DISPATCH(EncodeStripImpl)
    (x.Cols(first, width), remainder.Cols(first, width), means.Cols(first, width), bits + OneBitBytes(x.rows(), first));
  });
}

void DecodeCpu(ConstMatrixView means, const uint8_t* bits, MatrixView x) {
  ForStrips(x.rows(), x.cols(), [&](int64_t first, int64_t width) {
    HWY_DYNAMIC_DISPATCH(DecodeStripImpl)
    (means.Cols(first, width), bits + OneBitBytes(x.rows(), first), x.Cols(first, width));
  });
}

REGISTER_KERNEL(OneBitEncodeOp, DeviceKind::kCpu, DataType::kFloat32, "highway", 1, &EncodeCpu);
REGISTER_KERNEL(OneBitDecodeOp, DeviceKind::kCpu, DataType::kFloat32, "highway", 1, &DecodeCpu);

}  // namespace
}  // namespace antiphon
#endif
