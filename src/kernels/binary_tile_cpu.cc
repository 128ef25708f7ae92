#include "kernels/binary_tile.h"
#include "kernels/dense_tile.h"
#include "kernels/x86_targets.h"

#define HWY_DISABLED_TARGETS HWY_SSSE3
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/binary_tile_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace antiphon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
void Binary(const BinaryTileArgs& args) {
  const hn::CappedTag<uint64_t, 8> d;
  constexpr int64_t kLanes = hn::MaxLanes(decltype(d)());
  constexpr int kVectors = 4;
  for (int r = 0; r < args.rows; ++r) {
    const uint64_t* x = args.input + r * args.input_stride;
    for (int64_t first = 0; first < kPanelOutputs; first += kVectors * kLanes) {
      hn::Vec<decltype(d)> different[kVectors];
      ANTIPHON_UNROLL for (int v = 0; v < kVectors; ++v) different[v] = hn::Zero(d);
      for (int64_t w = 0; w < args.words; ++w) {
        const auto value = hn::Set(d, x[w]);
        ANTIPHON_UNROLL for (int v = 0; v < kVectors; ++v) {
          const auto weights = hn::LoadU(d, args.panel + w * kPanelOutputs + first + v * kLanes);
          different[v] = hn::Add(different[v], hn::PopulationCount(hn::Xor(value, weights)));
        }
      }
      HWY_ALIGN uint64_t counts[kVectors * kLanes];
      for (int v = 0; v < kVectors; ++v) hn::Store(different[v], d, counts + v * kLanes);
      for (int64_t o = 0; o < kVectors * kLanes; ++o) {
        args.out[r * kPanelOutputs + first + o] =
            static_cast<int32_t>(args.depth - 2 * static_cast<int64_t>(counts[o]));
      }
    }
  }
}
#endif

#if HWY_TARGET == HWY_AVX3
template <int kRows>
ANTIPHON_TARGET_AVX512_POPCNT void Popcount(const BinaryTileArgs& args) {
  constexpr int kVectors = kRows == 1 ? 8 : (kRows == 2 ? 8 : 4);
  for (int64_t first = 0; first < kPanelOutputs; first += kVectors * 8) {
    __m512i different[kRows][kVectors];
    ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) {
      ANTIPHON_UNROLL for (int v = 0; v < kVectors; ++v) different[r][v] = _mm512_setzero_si512();
    }
    for (int64_t w = 0; w < args.words; ++w) {
      ANTIPHON_UNROLL for (int v = 0; v < kVectors; ++v) {
        const __m512i weights = _mm512_loadu_si512(args.panel + w * kPanelOutputs + first + v * 8);
        ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) {
          const __m512i value = _mm512_set1_epi64(static_cast<int64_t>(args.input[r * args.input_stride + w]));
          different[r][v] = _mm512_add_epi64(different[r][v], _mm512_popcnt_epi64(_mm512_xor_si512(value, weights)));
        }
      }
    }
    const __m256i depth = _mm256_set1_epi32(static_cast<int>(args.depth));
    ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) {
      ANTIPHON_UNROLL for (int v = 0; v < kVectors; ++v) {
        const __m256i count = _mm512_cvtepi64_epi32(different[r][v]);
        const __m256i sum = _mm256_sub_epi32(depth, _mm256_add_epi32(count, count));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(args.out + r * kPanelOutputs + first + v * 8), sum);
      }
    }
  }
}

void BinaryPopcount(const BinaryTileArgs& args) {
  // CPUs of this level need not have the vector popcount: Cascade Lake lacks it.
  static const bool has_popcount = __builtin_cpu_supports("avx512vpopcntdq");
  if (!has_popcount) return Binary(args);
  using Function = void (*)(const BinaryTileArgs&);
  static constexpr Function kByRows[kTileRows] = {&Popcount<1>, &Popcount<2>, &Popcount<3>,
                                                  &Popcount<4>, &Popcount<5>, &Popcount<6>};
  if (args.rows > 0) kByRows[args.rows - 1](args);
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace antiphon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace antiphon {
namespace {

#define ANTIPHON_REGISTER(ns, isa, function) \
  REGISTER_KERNEL(BinaryTileOp, DeviceKind::kCpu, DataType::kInt8, isa, 0, &ns::function)

#if HWY_TARGETS & HWY_NEON
ANTIPHON_REGISTER(N_NEON, "neon", Binary);
#endif
#if HWY_TARGETS & HWY_SSE4
ANTIPHON_REGISTER(N_SSE4, "sse4", Binary);
#endif
#if HWY_TARGETS & HWY_AVX2
ANTIPHON_REGISTER(N_AVX2, "avx2", Binary);
#endif
#if HWY_TARGETS & HWY_AVX3
ANTIPHON_REGISTER(N_AVX3, "avx512", Binary);
ANTIPHON_REGISTER(N_AVX3, "avx512-vnni", BinaryPopcount);
#endif

}  // namespace
}  // namespace antiphon
#endif
