#include "nn/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace antiphon::nn {
namespace {

// The next value with 16 bits of mantissa: products with integers of 8 bits stay exact.
float RoundUpTo16Bits(float value) {
  constexpr uint32_t kDropped = (1u << 8) - 1;
  const auto bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits + kDropped) & ~kDropped);
}

}  // namespace

float RowScale(std::span<const float> row, int bits) {
  float largest = 0;
  for (const float v : row) largest = std::max(largest, std::abs(v));
  return RoundUpTo16Bits(largest / static_cast<float>(LargestInteger(bits)));
}

QuantizedRows QuantizeRows(ConstMatrixView weight, int bits) {
  QuantizedRows q{weight.rows(), weight.cols(), std::vector<int8_t>(static_cast<size_t>(weight.size())), {}};
  int8_t* out = q.values.data();
  for (int64_t r = 0; r < weight.rows(); ++r) {
    const float scale = RowScale(weight.Row(r), bits);
    q.scales.push_back(scale);
    for (const float v : weight.Row(r)) *out++ = scale > 0 ? static_cast<int8_t>(std::nearbyint(v / scale)) : int8_t{0};
  }
  return q;
}

void RoundToIntegers(ConstMatrixView from, int bits, MatrixView to) {
#pragma omp parallel for schedule(static) if (from.size() > (1 << 16))
  for (int64_t r = 0; r < from.rows(); ++r) {
    const float scale = RowScale(from.Row(r), bits);
    const float* in = from.Row(r).data();
    float* out = to.Row(r).data();
    for (int64_t c = 0; c < from.cols(); ++c) out[c] = scale > 0 ? scale * std::nearbyint(in[c] / scale) : 0.0f;
  }
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
#pragma omp parallel for schedule(static) if (from.size() > (1 << 16))
  for (int64_t r = 0; r < from.rows(); ++r) {
    const float scale = SignScale(from.Row(r));
    const float* in = from.Row(r).data();
    float* out = to.Row(r).data();
    for (int64_t c = 0; c < from.cols(); ++c) out[c] = in[c] < 0 ? -scale : scale;
  }
}

}  // namespace antiphon::nn
