#include "nn/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/dense_tile.h"
#include "kernels/parallel.h"

namespace antiphon::nn {
namespace {

// The next value with 16 bits of mantissa: products with integers of 8 bits stay exact.
float RoundUpTo16Bits(float value) {
  constexpr uint32_t kDropped = (1u << 8) - 1;
  const auto bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits + kDropped) & ~kDropped);
}

// To the nearest, ties to even, for |x| < 2^22: without a call, so that loops over it become vectors.
float Rounded(float x) {
  constexpr float kShift = 12582912.0f;
  return (x + kShift) - kShift;
}

bool IsOnGrid(std::span<const float> row, float scale) {
  return std::ranges::all_of(row, [&](float v) { return scale * Rounded(v / scale) == v; });
}

// The largest positive or negative part of a short sum of `value(i)`, i below n.
template <class Value>
float LargestShortSum(size_t n, Value value) {
  float largest = 0;
  for (size_t first = 0; first < n; first += 8) {
    float above[8] = {}, below[8] = {};
    for (size_t i = 0; i < std::min<size_t>(8, n - first); ++i) {
      const float v = value(first + i);
      above[i] = std::max(v, 0.0f);
      below[i] = std::max(-v, 0.0f);
    }
    for (const float* part : {above, below}) {
      largest = std::max({largest, part[0] + part[1] + part[4] + part[5], part[2] + part[3] + part[6] + part[7]});
    }
  }
  return largest;
}

// The scale with most steps up to the row's largest value: of those that lose nothing if there are any.
float ScaleOf8Bits(std::span<const float> row, float largest) {
  const auto scale_of = [&](int steps) { return RoundUpTo16Bits(largest / static_cast<float>(steps)); };
  const auto fits = [&](float scale) {
    return LargestShortSum(row.size(), [&](size_t i) { return Rounded(row[i] / scale); }) <= kMostShortSum;
  };
  float lossless = 0;
  for (int steps = LargestInteger(8); steps > 0; --steps) {
    const float scale = scale_of(steps);
    if (!IsOnGrid(row, scale)) continue;
    if (fits(scale)) return scale;
    if (lossless == 0) lossless = scale;
  }
  if (lossless > 0) return lossless;
  // Rounding moves a sum of four by two steps at most: more steps than these cannot fit.
  const float sum = LargestShortSum(row.size(), [&](size_t i) { return row[i]; });
  const float most = std::ceil((kMostShortSum + 2) * largest / sum);
  for (int steps = std::min(LargestInteger(8), static_cast<int>(most)); steps > 1; --steps) {
    if (fits(scale_of(steps))) return scale_of(steps);
  }
  return scale_of(1);
}

}  // namespace

float RowScale(std::span<const float> row, int bits) {
  float largest = 0;
  for (const float v : row) largest = std::max(largest, std::abs(v));
  if (largest == 0) return 0;
  return bits == 8 ? ScaleOf8Bits(row, largest) : RoundUpTo16Bits(largest / static_cast<float>(LargestInteger(bits)));
}

int8_t ToInteger(float w, float scale) { return scale > 0 ? static_cast<int8_t>(Rounded(w / scale)) : int8_t{0}; }

QuantizedRows QuantizeRows(ConstMatrixView weight, int bits) {
  QuantizedRows q{weight.rows(), weight.cols(), std::vector<int8_t>(static_cast<size_t>(weight.size())),
                  std::vector<float>(static_cast<size_t>(weight.rows()))};
  ParallelItems(weight.rows(), weight.size(), [&](int64_t r) {
    const float scale = RowScale(weight.Row(r), bits);
    q.scales[static_cast<size_t>(r)] = scale;
    int8_t* out = q.values.data() + r * weight.cols();
    for (const float v : weight.Row(r)) *out++ = ToInteger(v, scale);
  });
  return q;
}

bool ShortSumsFit(const QuantizedRows& weights) {
  for (int64_t r = 0; r < weights.rows; ++r) {
    const auto row = weights.Row(r);
    if (LargestShortSum(row.size(), [&](size_t i) { return static_cast<float>(row[i]); }) > kMostShortSum) return false;
  }
  return true;
}

void RoundToIntegers(ConstMatrixView from, int bits, MatrixView to) {
  ParallelItems(from.rows(), from.size(), [&](int64_t r) {
    const float scale = RowScale(from.Row(r), bits);
    const float* in = from.Row(r).data();
    float* out = to.Row(r).data();
    for (int64_t c = 0; c < from.cols(); ++c) out[c] = scale > 0 ? scale * Rounded(in[c] / scale) : 0.0f;
  });
}

InputRange RangeFor(float low, float high) {
  low = std::min(low, 0.0f);
  high = std::max(high, 0.0f);
  InputRange range;
  range.scale = (high - low) / 255.0f;
  if (range.scale > 0) range.zero = std::clamp(std::nearbyint(-low / range.scale), 0.0f, 255.0f);
  return range;
}

void RoundToRange(ConstMatrixView x, const InputRange& range, MatrixView to) {
  for (int64_t r = 0; r < x.rows(); ++r) {
    const float* in = x.Row(r).data();
    float* out = to.Row(r).data();
    for (int64_t c = 0; c < x.cols(); ++c) {
      const float q = std::clamp(std::nearbyint(in[c] / range.scale) + range.zero, 0.0f, 255.0f);
      out[c] = range.scale * (q - range.zero);
    }
  }
}

float SignScale(std::span<const float> row) {
  double sum = 0;
  for (const float v : row) sum += std::abs(static_cast<double>(v));
  return row.empty() ? 0.0f : static_cast<float>(sum / static_cast<double>(row.size()));
}

void RoundToSigns(ConstMatrixView from, MatrixView to) {
  ParallelItems(from.rows(), from.size(), [&](int64_t r) {
    const float scale = SignScale(from.Row(r));
    const float* in = from.Row(r).data();
    float* out = to.Row(r).data();
    for (int64_t c = 0; c < from.cols(); ++c) out[c] = in[c] < 0 ? -scale : scale;
  });
}

}  // namespace antiphon::nn
