#include "kernels/gather_dot.h"
#include "kernels/x86_targets.h"

#define HWY_DISABLED_TARGETS HWY_SSSE3
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gather_dot_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace antiphon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
template <int kRows>
void DotWidened(const uint8_t* input, int64_t stride, const int8_t* weights, int64_t depth, int32_t* out) {
  const hn::CappedTag<int16_t, 32> d16;
  const hn::RepartitionToWide<decltype(d16)> d32;
  const hn::Rebind<int8_t, decltype(d16)> d8;
  const hn::Rebind<uint8_t, decltype(d16)> du8;
  hn::Vec<decltype(d32)> sum[kRows], more[kRows];
  ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) sum[r] = more[r] = hn::Zero(d32);
  for (int64_t i = 0; i < depth; i += static_cast<int64_t>(hn::Lanes(d16))) {
    const auto w = hn::PromoteTo(d16, hn::LoadU(d8, weights + i));
    ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) {
      const auto x = hn::PromoteTo(d16, hn::LoadU(du8, input + r * stride + i));
      sum[r] = hn::ReorderWidenMulAccumulate(d32, x, w, sum[r], more[r]);
    }
  }
  ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) {
    out[r] = hn::GetLane(hn::SumOfLanes(d32, hn::Add(sum[r], more[r])));
  }
}
#endif

#if HWY_TARGET == HWY_AVX2
template <int kRows>
ANTIPHON_TARGET_AVX_VNNI void DotVnni(const uint8_t* input, int64_t stride, const int8_t* weights, int64_t depth,
                                      int32_t* out) {
  __m256i sum[kRows];
  ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) sum[r] = _mm256_setzero_si256();
  for (int64_t i = 0; i < depth; i += 32) {
    const __m256i w = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights + i));
    ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) {
      const auto* x = reinterpret_cast<const __m256i*>(input + r * stride + i);
      sum[r] = _mm256_dpbusd_avx_epi32(sum[r], _mm256_loadu_si256(x), w);
    }
  }
  ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) {
    alignas(32) int32_t lanes[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), sum[r]);
    out[r] = 0;
    for (const int32_t lane : lanes) out[r] += lane;
  }
}
#elif HWY_TARGET == HWY_AVX3
// Rows in registers against all outputs, so that what is loaded is used several times.
template <int kRows, int kOutputs>
ANTIPHON_TARGET_AVX512_VNNI void BlockVnni(const GatherDotArgs& args, int row) {
  __m512i sum[kOutputs][kRows];
  ANTIPHON_UNROLL for (int o = 0; o < kOutputs; ++o) {
    ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) sum[o][r] = _mm512_setzero_si512();
  }
  const uint8_t* input = args.input + row * args.input_stride;
  for (int64_t i = 0; i < args.depth; i += 64) {
    __m512i x[kRows];
    ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) x[r] = _mm512_loadu_si512(input + r * args.input_stride + i);
    ANTIPHON_UNROLL for (int o = 0; o < kOutputs; ++o) {
      const __m512i w = _mm512_loadu_si512(args.weights[o] + i);
      ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) sum[o][r] = _mm512_dpbusd_epi32(sum[o][r], x[r], w);
    }
  }
  ANTIPHON_UNROLL for (int o = 0; o < kOutputs; ++o) {
    ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) {
      args.out[o * kGatherRows + row + r] = _mm512_reduce_add_epi32(sum[o][r]);
    }
  }
}

template <int kOutputs>
ANTIPHON_TARGET_AVX512_VNNI void RowsVnni(const GatherDotArgs& args) {
  using Function = void (*)(const GatherDotArgs&, int);
  static constexpr Function kByRows[] = {&BlockVnni<1, kOutputs>, &BlockVnni<2, kOutputs>, &BlockVnni<3, kOutputs>,
                                         &BlockVnni<4, kOutputs>};
  for (int row = 0; row < args.rows; row += 4) kByRows[std::min(args.rows - row, 4) - 1](args, row);
}

void GatherVnni(const GatherDotArgs& args) {
  using Function = void (*)(const GatherDotArgs&);
  static constexpr Function kByOutputs[kGatherOutputs] = {&RowsVnni<1>, &RowsVnni<2>, &RowsVnni<3>, &RowsVnni<4>};
  if (args.outputs > 0) kByOutputs[args.outputs - 1](args);
}
#endif

// One output after another.
#define ANTIPHON_BY_ROWS(Name, kernel)                                                                                \
  void Name(const GatherDotArgs& args) {                                                                              \
    using Function = void (*)(const uint8_t*, int64_t, const int8_t*, int64_t, int32_t*);                             \
    static constexpr Function kByRows[] = {&kernel<1>, &kernel<2>, &kernel<3>, &kernel<4>,                            \
                                           &kernel<5>, &kernel<6>, &kernel<7>, &kernel<8>};                           \
    for (int o = 0; o < args.outputs && args.rows > 0; ++o) {                                                         \
      kByRows[args.rows - 1](args.input, args.input_stride, args.weights[o], args.depth, args.out + o * kGatherRows); \
    }                                                                                                                 \
  }

#if HWY_TARGET != HWY_SCALAR
ANTIPHON_BY_ROWS(GatherWidened, DotWidened)
#endif
#if HWY_TARGET == HWY_AVX2
ANTIPHON_BY_ROWS(GatherVnni, DotVnni)
#endif
#undef ANTIPHON_BY_ROWS

}  // namespace HWY_NAMESPACE
}  // namespace antiphon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace antiphon {
namespace {

#define ANTIPHON_REGISTER(ns, isa, function) \
  REGISTER_KERNEL(GatherDotOp, DeviceKind::kCpu, DataType::kInt8, isa, 0, &ns::function)

#if HWY_TARGETS & HWY_NEON
ANTIPHON_REGISTER(N_NEON, "neon", GatherWidened);
#endif
#if HWY_TARGETS & HWY_SSE4
ANTIPHON_REGISTER(N_SSE4, "sse4", GatherWidened);
#endif
#if HWY_TARGETS & HWY_AVX2
ANTIPHON_REGISTER(N_AVX2, "avx2", GatherWidened);
ANTIPHON_REGISTER(N_AVX2, "avx-vnni", GatherVnni);
#endif
#if HWY_TARGETS & HWY_AVX3
ANTIPHON_REGISTER(N_AVX3, "avx512", GatherWidened);
ANTIPHON_REGISTER(N_AVX3, "avx512-vnni", GatherVnni);
#endif

}  // namespace
}  // namespace antiphon
#endif
