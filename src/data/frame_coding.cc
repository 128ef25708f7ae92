#include "data/frame_coding.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/error.h"
#include "data/frame_store.h"

namespace antiphon::data::internal {
namespace {

template <class Code>
void Quantise(ConstMatrixView features, char* out) {
  const auto dim = static_cast<size_t>(features.cols());
  constexpr float kLast = static_cast<float>(std::numeric_limits<Code>::max());
  std::vector<float> step(dim);
  std::vector<float> low(dim, std::numeric_limits<float>::infinity());
  std::vector<float> high(dim, -std::numeric_limits<float>::infinity());
  for (int64_t r = 0; r < features.rows(); ++r) {
    const std::span<const float> row = features.Row(r);
    for (size_t c = 0; c < dim; ++c) {
      if (!std::isfinite(row[c]))
        Throw<InputError>("frame {}, column {} holds {}; expected finite numbers", r, c, row[c]);
      low[c] = std::min(low[c], row[c]);
      high[c] = std::max(high[c], row[c]);
    }
  }
  for (size_t c = 0; c < dim; ++c) {
    step[c] = (high[c] - low[c]) / kLast;
    if (!std::isfinite(step[c]))
      Throw<InputError>("column {}: the values {} and {} are too far apart", c, low[c], high[c]);
  }
  std::memcpy(out, step.data(), dim * sizeof(float));
  std::memcpy(out + dim * sizeof(float), low.data(), dim * sizeof(float));
  char* codes = out + 2 * dim * sizeof(float);
  for (int64_t r = 0; r < features.rows(); ++r) {
    const std::span<const float> row = features.Row(r);
    for (size_t c = 0; c < dim; ++c, codes += sizeof(Code)) {
      const float position = step[c] > 0.0f ? (row[c] - low[c]) / step[c] : 0.0f;
      const auto code = static_cast<Code>(std::clamp(position + 0.5f, 0.0f, kLast));
      std::memcpy(codes, &code, sizeof code);
    }
  }
}

template <class Code>
void DecodeRow(const Code* __restrict codes, const float* __restrict step, const float* __restrict low, size_t dim,
               float* __restrict out) {
  for (size_t c = 0; c < dim; ++c) out[c] = low[c] + step[c] * static_cast<float>(codes[c]);
}

template <class Code>
void DecodeRows(const char* coded, int dim, int64_t first, int64_t count, float* out, int64_t out_stride) {
  const auto* step = reinterpret_cast<const float*>(coded);
  const auto* codes = reinterpret_cast<const Code*>(step + 2 * static_cast<size_t>(dim)) + first * dim;
  for (int64_t r = 0; r < count; ++r) {
    DecodeRow(codes + r * dim, step, step + dim, static_cast<size_t>(dim), out + r * out_stride);
  }
}

}  // namespace

void FrameCoding::Encode(ConstMatrixView frames, char* coded) const {
  code_bytes_ == 1 ? Quantise<uint8_t>(frames, coded) : Quantise<uint16_t>(frames, coded);
}

void FrameCoding::Decode(const char* coded, int64_t first, int64_t count, float* out, int64_t out_stride) const {
  if (code_bytes_ == 1) return DecodeRows<uint8_t>(coded, dim_, first, count, out, out_stride);
  DecodeRows<uint16_t>(coded, dim_, first, count, out, out_stride);
}

void FrameCoding::Splice(const char* coded, int64_t num_frames, int64_t frame, Context context, float* out) const {
  const int64_t dim = dim_;
  const int64_t begin = frame - context.left;
  const int64_t end = frame + context.right + 1;
  const int64_t inside_begin = std::max<int64_t>(begin, 0);
  const int64_t inside_end = std::min(end, num_frames);
  Decode(coded, inside_begin, inside_end - inside_begin, out + (inside_begin - begin) * dim, dim);
  const auto repeat = [&](int64_t from, int64_t to) {
    std::memcpy(out + (to - begin) * dim, out + (from - begin) * dim, static_cast<size_t>(dim) * sizeof(float));
  };
  for (int64_t t = begin; t < inside_begin; ++t) repeat(inside_begin, t);
  for (int64_t t = inside_end; t < end; ++t) repeat(inside_end - 1, t);
}

}  // namespace antiphon::data::internal
