#include "kernels/dense_tile.h"
#include "kernels/fetch_ahead.h"
#include "kernels/x86_targets.h"

#define HWY_DISABLED_TARGETS HWY_SSSE3
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dense_tile_cpu.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace antiphon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;
constexpr int64_t kLanes = hn::MaxLanes(FloatTag());
// Outputs of a strip: with few registers those of one pass, with many those that leave room for many rows.
constexpr int64_t kStrip = 2 * kLanes;
constexpr int kMostRows = kLanes == 16 ? 12 : 6;
// Up to so many rows take the panel as one stream, or as few.
constexpr int kFewRows = kLanes == 16 ? 3 : 1;
// Vectors of outputs that one pass sums up: with one row all that registers hold, to read the panel as one stream.
constexpr int PassVectors(int rows) {
  const int whole = static_cast<int>(kPanelOutputs / kLanes);
  return rows == 1 ? std::min(whole, 8) : std::min(whole, kLanes == 16 ? 4 : 2);
}
// How far ahead of the multiplications the panels are fetched.
constexpr int64_t kAhead = 4096;

template <class T>
HWY_INLINE const T* InputRow(const DenseTileArgs& args, int row) {
  return reinterpret_cast<const T*>(static_cast<const char*>(args.input) + row * args.input_stride);
}

// Four bytes of row r at group g. A pointer for each row would be more than there are registers: every fourth has one.
template <class T, int kRows>
struct RowValues {
  explicit RowValues(const DenseTileArgs& args) : stride(args.input_stride) {
    for (int r = 0; r < kRows; r += 4) rows[r / 4] = InputRow<char>(args, r);
  }
  HWY_INLINE T operator()(int r, int64_t g) const {
    T value;
    std::memcpy(&value, rows[r / 4] + r % 4 * stride + 4 * g, sizeof(value));
    return value;
  }
  const char* rows[(kRows + 3) / 4];
  int64_t stride;
};

// Outputs [begin, end) of the panel, kVectors vectors at a time: additions of few rows must not wait for each other.
template <int kRows, int kVectors>
void Fp32(const DenseTileArgs& args, int64_t begin, int64_t end, FetchAhead next) {
  const FloatTag d;
  const auto value_of = RowValues<float, kRows>(args);
  const int64_t strip_values = args.groups * kStrip;
  for (int64_t first = begin; first < end; first += kVectors * kLanes) {
    const float* w = static_cast<const float*>(args.panel) + first / kStrip * strip_values;
    hn::Vec<FloatTag> sum[kRows][kVectors];
    for (auto& row : sum) {
      for (auto& v : row) v = hn::Zero(d);
    }
    for (int64_t g = 0; g < args.groups; ++g, w += kStrip) {
      hn::Vec<FloatTag> weight[kVectors];
      next.Step();
      ANTIPHON_UNROLL for (int v = 0; v < kVectors; ++v) {
        const float* from = w + v * kLanes / kStrip * strip_values + v * kLanes % kStrip;
        if (v * kLanes % 16 == 0) hwy::Prefetch(reinterpret_cast<const char*>(from) + kAhead);
        weight[v] = hn::Load(d, from);
      }
      ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) {
        const auto value = hn::Set(d, value_of(r, g));
        ANTIPHON_UNROLL for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(value, weight[v], sum[r][v]);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      float* out = static_cast<float*>(args.out) + r * kPanelOutputs + first;
      for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[r][v], d, out + v * kLanes);
    }
  }
}

using Fp32Function = void (*)(const DenseTileArgs&, int64_t, int64_t, FetchAhead);
template <size_t... kIndex>
constexpr std::array<Fp32Function, sizeof...(kIndex)> FewRows(std::index_sequence<kIndex...>) {
  return {&Fp32<kIndex + 1, PassVectors(kIndex + 1)>...};
}
template <size_t... kIndex>
constexpr std::array<Fp32Function, sizeof...(kIndex)> ByRows(std::index_sequence<kIndex...>) {
  return {&Fp32<kIndex + 1, 2>...};
}

// The rows of part p of `parts`.
DenseTileArgs Part(const DenseTileArgs& args, int p, int parts) {
  const int row = args.rows * p / parts;
  DenseTileArgs part = args;
  part.rows = args.rows * (p + 1) / parts - row;
  part.input = InputRow<char>(args, row);
  part.out = static_cast<float*>(args.out) + row * kPanelOutputs;
  return part;
}

// Strip by strip, each for all rows while it is in the cache; all rows but the first fetch what comes next.
void Fp32Tile(const DenseTileArgs& args) {
  static constexpr auto kFew = FewRows(std::make_index_sequence<kFewRows>());
  static constexpr auto kByRows = ByRows(std::make_index_sequence<kMostRows>());
  if (args.rows <= kFewRows) return kFew[args.rows - 1](args, 0, kPanelOutputs, {});
  const int parts = (args.rows + kMostRows - 1) / kMostRows;
  const int64_t strip_bytes = args.groups * kStrip * int64_t{sizeof(float)};
  for (int64_t first = 0; first < kPanelOutputs; first += kStrip) {
    const bool last = first + kStrip == kPanelOutputs;
    const char* const following = static_cast<const char*>(args.panel) + (first / kStrip + 1) * strip_bytes;
    const char* const next = last ? args.next : args.panel_in_cache ? nullptr : following;
    const int64_t bytes = last ? args.next_bytes : strip_bytes;
    for (int p = 0; p < parts; ++p) {
      const DenseTileArgs part = Part(args, p, parts);
      kByRows[part.rows - 1](part, first, first + kStrip,
                             p > 0 ? FetchAhead::Share(next, bytes, p - 1, parts - 1, args.groups) : FetchAhead());
    }
  }
}

// A 32-bit lane holds two values of an output, the first in the lower half.
template <int kRows>
void Bf16Widened(const DenseTileArgs& args) {
  constexpr int kVectors = PassVectors(2);
  const FloatTag d;
  const hn::RebindToUnsigned<FloatTag> du;
  const uint32_t* x[kRows];
  for (int r = 0; r < kRows; ++r) x[r] = InputRow<uint32_t>(args, r);
  const auto upper = hn::Set(du, 0xffff0000U);
  for (int64_t first = 0; first < kPanelOutputs; first += kVectors * kLanes) {
    const uint32_t* w = static_cast<const uint32_t*>(args.panel) + first;
    hn::Vec<FloatTag> sum[kRows][kVectors];
    for (auto& row : sum) {
      for (auto& v : row) v = hn::Zero(d);
    }
    for (int64_t g = 0; g < args.groups; ++g, w += kPanelOutputs) {
      hn::Vec<FloatTag> low[kVectors], high[kVectors];
      ANTIPHON_UNROLL for (int v = 0; v < kVectors; ++v) {
        const auto pair = hn::Load(du, w + v * kLanes);
        low[v] = hn::BitCast(d, hn::ShiftLeft<16>(pair));
        high[v] = hn::BitCast(d, hn::And(pair, upper));
      }
      ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) {
        const auto pair = hn::Set(du, x[r][g]);
        const auto first_value = hn::BitCast(d, hn::ShiftLeft<16>(pair));
        const auto second_value = hn::BitCast(d, hn::And(pair, upper));
        ANTIPHON_UNROLL for (int v = 0; v < kVectors; ++v) {
          sum[r][v] = hn::MulAdd(second_value, high[v], hn::MulAdd(first_value, low[v], sum[r][v]));
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      float* out = static_cast<float*>(args.out) + r * kPanelOutputs + first;
      for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[r][v], d, out + v * kLanes);
    }
  }
}

#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
// Vectors of 16-bit values hold four neighbours of the depth per output, so that the pairwise multiply-add leaves two
// sums per output.
template <int kRows>
void Int8Widened(const DenseTileArgs& args) {
  constexpr int kVectors = 4;
  const hn::CappedTag<int16_t, 32> d16;
  const hn::RepartitionToWide<decltype(d16)> d32;
  const hn::Rebind<int8_t, decltype(d16)> d8;
  const hn::Rebind<uint8_t, decltype(d16)> du8;
  const hn::Repartition<uint32_t, decltype(du8)> du32;
  constexpr int64_t kOutputs = hn::MaxLanes(decltype(d16)()) / 4;
  const uint8_t* x[kRows];
  for (int r = 0; r < kRows; ++r) x[r] = InputRow<uint8_t>(args, r);
  for (int64_t first = 0; first < kPanelOutputs; first += kVectors * kOutputs) {
    const int8_t* w = static_cast<const int8_t*>(args.panel) + 4 * first;
    hn::Vec<decltype(d32)> sum[kRows][kVectors];
    for (auto& row : sum) {
      for (auto& v : row) v = hn::Zero(d32);
    }
    auto unused = hn::Zero(d32);
    for (int64_t g = 0; g < args.groups; ++g, w += 4 * kPanelOutputs) {
      hn::Vec<decltype(d16)> weight[kVectors];
      ANTIPHON_UNROLL for (int v = 0; v < kVectors; ++v) {
        weight[v] = hn::PromoteTo(d16, hn::LoadU(d8, w + 4 * v * kOutputs));
      }
      ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) {
        uint32_t four = 0;
        std::memcpy(&four, x[r] + 4 * g, sizeof(four));
        const auto value = hn::PromoteTo(d16, hn::BitCast(du8, hn::Set(du32, four)));
        ANTIPHON_UNROLL for (int v = 0; v < kVectors; ++v) {
          sum[r][v] = hn::ReorderWidenMulAccumulate(d32, value, weight[v], sum[r][v], unused);
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      HWY_ALIGN int32_t halves[2 * kOutputs];
      int32_t* out = static_cast<int32_t*>(args.out) + r * kPanelOutputs + first;
      for (int v = 0; v < kVectors; ++v) {
        hn::Store(sum[r][v], d32, halves);
        for (int64_t o = 0; o < kOutputs; ++o) out[v * kOutputs + o] = halves[2 * o] + halves[2 * o + 1];
      }
    }
  }
}
#else
// Any other vector unit: four products per output, one after another.
template <int kRows>
void Int8Widened(const DenseTileArgs& args) {
  constexpr int kVectors = 2;
  const hn::CappedTag<int32_t, 16> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  constexpr int64_t kOutputs = hn::MaxLanes(decltype(d)());
  for (int64_t first = 0; first < kPanelOutputs; first += kVectors * kOutputs) {
    const auto* w = static_cast<const int32_t*>(args.panel) + first;
    hn::Vec<decltype(d)> sum[kRows][kVectors];
    for (auto& row : sum) {
      for (auto& v : row) v = hn::Zero(d);
    }
    for (int64_t g = 0; g < args.groups; ++g, w += kPanelOutputs) {
      for (int v = 0; v < kVectors; ++v) {
        const auto four = hn::LoadU(d, w + v * kOutputs);
        const auto w0 = hn::ShiftRight<24>(hn::ShiftLeft<24>(four));
        const auto w1 = hn::ShiftRight<24>(hn::ShiftLeft<16>(four));
        const auto w2 = hn::ShiftRight<24>(hn::ShiftLeft<8>(four));
        const auto w3 = hn::ShiftRight<24>(four);
        for (int r = 0; r < kRows; ++r) {
          const uint8_t* x = InputRow<uint8_t>(args, r) + 4 * g;
          const auto low = hn::Add(hn::Mul(w0, hn::Set(d, x[0])), hn::Mul(w1, hn::Set(d, x[1])));
          const auto high = hn::Add(hn::Mul(w2, hn::Set(d, x[2])), hn::Mul(w3, hn::Set(d, x[3])));
          sum[r][v] = hn::Add(sum[r][v], hn::Add(low, high));
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      int32_t* out = static_cast<int32_t*>(args.out) + r * kPanelOutputs + first;
      for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[r][v], d, out + v * kOutputs);
    }
  }
  (void)du;
}
#endif

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#if HWY_TARGET == HWY_AVX2
#define ANTIPHON_TARGET_VNNI ANTIPHON_TARGET_AVX_VNNI
using Lanes = __m256i;
ANTIPHON_TARGET_VNNI inline Lanes VnniZero() { return _mm256_setzero_si256(); }
ANTIPHON_TARGET_VNNI inline Lanes VnniLoad(const int8_t* p) {
  return _mm256_load_si256(reinterpret_cast<const Lanes*>(p));
}
ANTIPHON_TARGET_VNNI inline Lanes VnniRepeat(uint32_t four) { return _mm256_set1_epi32(static_cast<int>(four)); }
ANTIPHON_TARGET_VNNI inline Lanes VnniAdd(Lanes sum, Lanes x, Lanes w) { return _mm256_dpbusd_avx_epi32(sum, x, w); }
ANTIPHON_TARGET_VNNI inline Lanes VnniSum(Lanes a, Lanes b) { return _mm256_add_epi32(a, b); }
ANTIPHON_TARGET_VNNI inline void VnniStore(Lanes v, int32_t* p) { _mm256_storeu_si256(reinterpret_cast<Lanes*>(p), v); }
#else
#define ANTIPHON_TARGET_VNNI ANTIPHON_TARGET_AVX512_VNNI
using Lanes = __m512i;
ANTIPHON_TARGET_VNNI inline Lanes VnniZero() { return _mm512_setzero_si512(); }
ANTIPHON_TARGET_VNNI inline Lanes VnniLoad(const int8_t* p) { return _mm512_load_si512(p); }
ANTIPHON_TARGET_VNNI inline Lanes VnniRepeat(uint32_t four) { return _mm512_set1_epi32(static_cast<int>(four)); }
ANTIPHON_TARGET_VNNI inline Lanes VnniAdd(Lanes sum, Lanes x, Lanes w) { return _mm512_dpbusd_epi32(sum, x, w); }
ANTIPHON_TARGET_VNNI inline Lanes VnniSum(Lanes a, Lanes b) { return _mm512_add_epi32(a, b); }
ANTIPHON_TARGET_VNNI inline void VnniStore(Lanes v, int32_t* p) { _mm512_storeu_si512(p, v); }
#endif

// One row keeps two sums per output, so that additions do not wait for each other.
template <int kRows>
ANTIPHON_TARGET_VNNI void Int8Vnni(const DenseTileArgs& args) {
  constexpr int kVectors = kRows > kTileRows ? 2 : PassVectors(kRows);
  constexpr int kChains = kRows == 1 && kVectors <= 4 ? 2 : 1;
  constexpr int kPasses = static_cast<int>(kPanelOutputs / (kVectors * kLanes));
  FetchAhead next(args.next, args.next_bytes, kPasses * (args.groups / kChains));
  const auto four = RowValues<uint32_t, kRows>(args);
  for (int64_t first = 0; first < kPanelOutputs; first += kVectors * kLanes) {
    const int8_t* w = static_cast<const int8_t*>(args.panel) + 4 * first;
    Lanes sum[kChains][kRows][kVectors];
    ANTIPHON_UNROLL for (int c = 0; c < kChains; ++c) {
      ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) {
        ANTIPHON_UNROLL for (int v = 0; v < kVectors; ++v) sum[c][r][v] = VnniZero();
      }
    }
    int64_t g = 0;
    for (; g + kChains <= args.groups; g += kChains) {
      next.Step();
      ANTIPHON_UNROLL for (int c = 0; c < kChains; ++c, w += 4 * kPanelOutputs) {
        Lanes weight[kVectors];
        ANTIPHON_UNROLL for (int v = 0; v < kVectors; ++v) {
          if constexpr (kLanes == 16)
            _mm_prefetch(reinterpret_cast<const char*>(w + 4 * v * kLanes + kAhead), _MM_HINT_T0);
          weight[v] = VnniLoad(w + 4 * v * kLanes);
        }
        ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) {
          const Lanes value = VnniRepeat(four(r, g + c));
          ANTIPHON_UNROLL for (int v = 0; v < kVectors; ++v) sum[c][r][v] = VnniAdd(sum[c][r][v], value, weight[v]);
        }
      }
    }
    for (; g < args.groups; ++g, w += 4 * kPanelOutputs) {
      ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) {
        const Lanes value = VnniRepeat(four(r, g));
        ANTIPHON_UNROLL for (int v = 0; v < kVectors; ++v) {
          sum[0][r][v] = VnniAdd(sum[0][r][v], value, VnniLoad(w + 4 * v * kLanes));
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      int32_t* out = static_cast<int32_t*>(args.out) + r * kPanelOutputs + first;
      for (int v = 0; v < kVectors; ++v)
        VnniStore(VnniSum(sum[0][r][v], kChains == 2 ? sum[kChains - 1][r][v] : VnniZero()), out + v * kLanes);
    }
  }
}
#undef ANTIPHON_TARGET_VNNI
#endif

#if HWY_TARGET == HWY_AVX3
template <int kRows>
ANTIPHON_TARGET_AVX512_BF16 void Bf16Pairs(const DenseTileArgs& args) {
  constexpr int kVectors = 4;
  const char* x[kRows];
  for (int r = 0; r < kRows; ++r) x[r] = InputRow<char>(args, r);
  const auto* w = static_cast<const uint32_t*>(args.panel);
  __m512 sum[kRows][kVectors];
  ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) {
    ANTIPHON_UNROLL for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_setzero_ps();
  }
  for (int64_t g = 0; g < args.groups; ++g, w += kPanelOutputs) {
    __m512bh weight[kVectors];
    ANTIPHON_UNROLL for (int v = 0; v < kVectors; ++v) {
      _mm_prefetch(reinterpret_cast<const char*>(w + v * 16) + kAhead, _MM_HINT_T0);
      weight[v] = (__m512bh)_mm512_load_si512(w + v * 16);
    }
    ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) {
      int pair;
      std::memcpy(&pair, x[r] + 4 * g, sizeof(pair));
      const auto value = (__m512bh)_mm512_set1_epi32(pair);
      ANTIPHON_UNROLL for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], value, weight[v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    float* out = static_cast<float*>(args.out) + r * kPanelOutputs;
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(out + v * 16, sum[r][v]);
  }
}
#endif

// Calls the function for the number of rows; a small register file takes them in parts.
#define ANTIPHON_BY_ROWS(Name, kernel, most)                                                                        \
  void Name(const DenseTileArgs& args) {                                                                            \
    using Function = void (*)(const DenseTileArgs&);                                                                \
    static constexpr Function kByRows[] = {&kernel<1>, &kernel<2>, &kernel<3>, &kernel<4>, &kernel<5>, &kernel<6>}; \
    DenseTileArgs part = args;                                                                                      \
    for (int row = 0; row < args.rows; row += part.rows) {                                                          \
      part.rows = std::min(args.rows - row, most);                                                                  \
      part.input = InputRow<char>(args, row);                                                                       \
      part.out = static_cast<char*>(args.out) + row * kPanelOutputs * int64_t{sizeof(int32_t)};                     \
      kByRows[part.rows - 1](part);                                                                                 \
    }                                                                                                               \
  }

ANTIPHON_BY_ROWS(Bf16WidenedTile, Bf16Widened, (kLanes == 16 ? 6 : 3))
ANTIPHON_BY_ROWS(Int8WidenedTile, Int8Widened, (kLanes == 16 ? 6 : 2))
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
template <size_t... kIndex>
constexpr std::array<DenseTileOp::Function, sizeof...(kIndex)> VnniByRows(std::index_sequence<kIndex...>) {
  return {&Int8Vnni<kIndex + 1>...};
}
void Int8VnniTile(const DenseTileArgs& args) {
  static constexpr auto kByRows = VnniByRows(std::make_index_sequence<kMostRows>());
  const int parts = (args.rows + kMostRows - 1) / kMostRows;
  for (int p = 0; p < parts; ++p) {
    const DenseTileArgs part = Part(args, p, parts);
    kByRows[part.rows - 1](part);
  }
}
#endif
#if HWY_TARGET == HWY_AVX3
ANTIPHON_BY_ROWS(Bf16PairsTile, Bf16Pairs, kTileRows)
#endif
#undef ANTIPHON_BY_ROWS

}  // namespace HWY_NAMESPACE
}  // namespace antiphon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace antiphon {
namespace {

#define ANTIPHON_REGISTER(ns, isa)                                                               \
  REGISTER_KERNEL(DenseTileOp, DeviceKind::kCpu, DataType::kFloat32, isa, 0, &ns::Fp32Tile);     \
  REGISTER_KERNEL(DenseTileOp, DeviceKind::kCpu, DataType::kBf16, isa, 0, &ns::Bf16WidenedTile); \
  REGISTER_KERNEL(DenseTileOp, DeviceKind::kCpu, DataType::kInt8, isa, 0, &ns::Int8WidenedTile)

#if HWY_TARGETS & HWY_NEON
ANTIPHON_REGISTER(N_NEON, "neon");
#endif
#if HWY_TARGETS & HWY_SSE4
ANTIPHON_REGISTER(N_SSE4, "sse4");
#endif
#if HWY_TARGETS & HWY_AVX2
ANTIPHON_REGISTER(N_AVX2, "avx2");
REGISTER_KERNEL(DenseTileOp, DeviceKind::kCpu, DataType::kInt8, "avx-vnni", 0, &N_AVX2::Int8VnniTile);
#endif
#if HWY_TARGETS & HWY_AVX3
ANTIPHON_REGISTER(N_AVX3, "avx512");
REGISTER_KERNEL(DenseTileOp, DeviceKind::kCpu, DataType::kInt8, "avx512-vnni", 0, &N_AVX3::Int8VnniTile);
REGISTER_KERNEL(DenseTileOp, DeviceKind::kCpu, DataType::kBf16, "avx512-bf16", 0, &N_AVX3::Bf16PairsTile);
#endif

}  // namespace
}  // namespace antiphon
#endif
