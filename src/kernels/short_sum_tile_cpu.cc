// The dense tile of 8 bits on CPUs with byte multiply-adds but without VNNI: for weights whose sums of four products
// fit into 16 bits, so that these instructions are exact (kernels/dense_tile.h).
//
// Two groups of the depth at a time: two multiply-adds of bytes, one addition in 16 bits, and one multiply-add by ones
// that widens the sum. Three multiplications for 64 products per 256 bits, where two would be needed for 32.
#include "kernels/dense_tile.h"
#include "kernels/fetch_ahead.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/short_sum_tile_cpu.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "kernels/x86_targets.h"

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
HWY_BEFORE_NAMESPACE();
namespace antiphon {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX2
using Bytes = __m256i;
constexpr int64_t kOutputs = 8;  // of a vector, four bytes each
inline Bytes Zero() { return _mm256_setzero_si256(); }
inline Bytes Ones() { return _mm256_set1_epi16(1); }
inline Bytes LoadWeights(const int8_t* p) { return _mm256_load_si256(reinterpret_cast<const Bytes*>(p)); }
inline Bytes Repeat(int32_t four) { return _mm256_set1_epi32(four); }
inline Bytes Products(Bytes x, Bytes w) { return _mm256_maddubs_epi16(x, w); }
inline Bytes AddShort(Bytes a, Bytes b) { return _mm256_add_epi16(a, b); }
inline Bytes AddWidened(Bytes sum, Bytes shorts, Bytes ones) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(shorts, ones));
}
inline void StoreSums(int32_t* p, Bytes v) { _mm256_storeu_si256(reinterpret_cast<Bytes*>(p), v); }
#else
using Bytes = __m128i;
constexpr int64_t kOutputs = 4;
inline Bytes Zero() { return _mm_setzero_si128(); }
inline Bytes Ones() { return _mm_set1_epi16(1); }
inline Bytes LoadWeights(const int8_t* p) { return _mm_load_si128(reinterpret_cast<const Bytes*>(p)); }
inline Bytes Repeat(int32_t four) { return _mm_set1_epi32(four); }
inline Bytes Products(Bytes x, Bytes w) { return _mm_maddubs_epi16(x, w); }
inline Bytes AddShort(Bytes a, Bytes b) { return _mm_add_epi16(a, b); }
inline Bytes AddWidened(Bytes sum, Bytes shorts, Bytes ones) {
  return _mm_add_epi32(sum, _mm_madd_epi16(shorts, ones));
}
inline void StoreSums(int32_t* p, Bytes v) { _mm_storeu_si128(reinterpret_cast<Bytes*>(p), v); }
#endif

constexpr int64_t kStrip = 2 * kOutputs;
constexpr int64_t kGroupBytes = 4 * kStrip;
constexpr int kMostRows = 4;
constexpr int64_t kAhead = 2048;

// A strip's outputs for a few rows.
template <int kRows>
void Strip(const uint8_t* input, int64_t input_stride, const int8_t* w, int64_t groups, FetchAhead next, int32_t* out) {
  const Bytes ones = Ones();
  Bytes sum[kRows][2];
  ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = Zero();
  const auto four = [&](int r, int64_t g) HWY_ATTR {
    int32_t bytes;
    std::memcpy(&bytes, input + r * input_stride + 4 * g, sizeof(bytes));
    return Repeat(bytes);
  };
  int64_t g = 0;
  for (; g + 2 <= groups; g += 2, w += 2 * kGroupBytes) {
    next.Step();
    _mm_prefetch(reinterpret_cast<const char*>(w) + kAhead, _MM_HINT_T0);
    if (kOutputs == 8) _mm_prefetch(reinterpret_cast<const char*>(w) + kAhead + 64, _MM_HINT_T0);
    const Bytes a0 = LoadWeights(w), a1 = LoadWeights(w + 4 * kOutputs);
    const Bytes b0 = LoadWeights(w + kGroupBytes), b1 = LoadWeights(w + kGroupBytes + 4 * kOutputs);
    ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) {
      const Bytes a = four(r, g), b = four(r, g + 1);
      sum[r][0] = AddWidened(sum[r][0], AddShort(Products(a, a0), Products(b, b0)), ones);
      sum[r][1] = AddWidened(sum[r][1], AddShort(Products(a, a1), Products(b, b1)), ones);
    }
  }
  if (g < groups) {
    const Bytes a0 = LoadWeights(w), a1 = LoadWeights(w + 4 * kOutputs);
    ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) {
      const Bytes a = four(r, g);
      sum[r][0] = AddWidened(sum[r][0], Products(a, a0), ones);
      sum[r][1] = AddWidened(sum[r][1], Products(a, a1), ones);
    }
  }
  ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) {
    StoreSums(out + r * kPanelOutputs, sum[r][0]);
    StoreSums(out + r * kPanelOutputs + kOutputs, sum[r][1]);
  }
}

// Strip by strip, each for all rows while it is in the cache; all rows but the first fetch what comes next.
void ShortSums(const DenseTileArgs& args) {
  using Function = void (*)(const uint8_t*, int64_t, const int8_t*, int64_t, FetchAhead, int32_t*);
  static constexpr Function kByRows[] = {&Strip<1>, &Strip<2>, &Strip<3>, &Strip<4>};
  const int parts = (args.rows + kMostRows - 1) / kMostRows;
  const int64_t strip_bytes = kGroupBytes * args.groups;
  for (int64_t first = 0; first < kPanelOutputs; first += kStrip) {
    const int8_t* w = static_cast<const int8_t*>(args.panel) + first * 4 * args.groups;
    const bool last = first + kStrip == kPanelOutputs;
    const char* const following = reinterpret_cast<const char*>(w) + strip_bytes;
    const char* const next = last ? args.next : args.panel_in_cache ? nullptr : following;
    const int64_t bytes = last ? args.next_bytes : strip_bytes;
    for (int p = 0; p < parts; ++p) {
      const int row = args.rows * p / parts, rows = args.rows * (p + 1) / parts - row;
      kByRows[rows - 1](static_cast<const uint8_t*>(args.input) + row * args.input_stride, args.input_stride, w,
                        args.groups,
                        p > 0 ? FetchAhead::Share(next, bytes, p - 1, parts - 1, args.groups / 2) : FetchAhead(),
                        static_cast<int32_t*>(args.out) + row * kPanelOutputs + first);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace antiphon
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace antiphon {
namespace {

#if HWY_TARGETS & HWY_SSE4
REGISTER_KERNEL(ShortSumTileOp, DeviceKind::kCpu, DataType::kInt8, "sse4", 0, &N_SSE4::ShortSums);
#endif
#if HWY_TARGETS & HWY_AVX2
REGISTER_KERNEL(ShortSumTileOp, DeviceKind::kCpu, DataType::kInt8, "avx2", 0, &N_AVX2::ShortSums);
#endif

}  // namespace
}  // namespace antiphon
#endif
