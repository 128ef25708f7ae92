#include "kernels/dense_tile.h"
#include "kernels/sparse_tile.h"
#include "kernels/x86_targets.h"

#define HWY_DISABLED_TARGETS HWY_SSSE3
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sparse_tile_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace antiphon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The four inputs of a block as one word.
HWY_INLINE uint32_t FourInputs(const SparseTileArgs& args, int row, int64_t block) {
  uint32_t four;
  std::memcpy(&four, args.input + row * args.input_stride + kBlockInputs * args.columns[block], sizeof(four));
  return four;
}

#if HWY_TARGET != HWY_SCALAR
// As in dense_tile_cpu.cc: 16 bits wide. On x86, `sum` holds two sums per output until the end; on ARM, `sum` and
// `more` hold the four sums of one output each.
void SparseWidened(const SparseTileArgs& args) {
  const hn::CappedTag<int16_t, 32> d16;
  const hn::RepartitionToWide<decltype(d16)> d32;
  const hn::Rebind<int8_t, decltype(d16)> d8;
  const hn::Rebind<uint8_t, decltype(d16)> du8;
  const hn::Repartition<uint32_t, decltype(du8)> du32;
  constexpr int64_t kOutputs = hn::MaxLanes(decltype(d16)()) / 4;
  constexpr int kVectors = kBlockOutputs / kOutputs;
  for (int r = 0; r < args.rows; ++r) {
    hn::Vec<decltype(d32)> sum[kVectors], more[kVectors];
    ANTIPHON_UNROLL for (int v = 0; v < kVectors; ++v) sum[v] = more[v] = hn::Zero(d32);
    for (int64_t b = 0; b < args.num_blocks; ++b) {
      const auto x = hn::PromoteTo(d16, hn::BitCast(du8, hn::Set(du32, FourInputs(args, r, b))));
      ANTIPHON_UNROLL for (int v = 0; v < kVectors; ++v) {
        const auto w = hn::PromoteTo(d16, hn::LoadU(d8, args.blocks + b * kBlockBytes + 4 * v * kOutputs));
        sum[v] = hn::ReorderWidenMulAccumulate(d32, x, w, sum[v], more[v]);
      }
    }
    for (int v = 0; v < kVectors; ++v) {
      int32_t* out = args.out + r * args.out_stride + v * kOutputs;
#if HWY_ARCH_ARM
      out[0] = hn::GetLane(hn::SumOfLanes(d32, sum[v]));
      out[1] = hn::GetLane(hn::SumOfLanes(d32, more[v]));
#else
      HWY_ALIGN int32_t halves[2 * kOutputs];
      hn::Store(sum[v], d32, halves);
      for (int64_t o = 0; o < kOutputs; ++o) out[o] = halves[2 * o] + halves[2 * o + 1];
#endif
    }
  }
}
#endif

#if HWY_TARGET == HWY_AVX3
// Few rows keep several sums, so that additions do not wait for each other.
template <int kRows>
ANTIPHON_TARGET_AVX512_VNNI void Vnni(const SparseTileArgs& args) {
  constexpr int kChains = kRows == 1 ? 4 : (kRows <= 3 ? 2 : 1);
  __m512i sum[kChains][kRows];
  ANTIPHON_UNROLL for (int c = 0; c < kChains; ++c) {
    ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) sum[c][r] = _mm512_setzero_si512();
  }
  int64_t b = 0;
  for (; b + kChains <= args.num_blocks; b += kChains) {
    ANTIPHON_UNROLL for (int c = 0; c < kChains; ++c) {
      const int8_t* block = args.blocks + (b + c) * kBlockBytes;
      _mm_prefetch(reinterpret_cast<const char*>(block + 2048), _MM_HINT_T0);
      const __m512i w = _mm512_load_si512(block);
      ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) {
        uint32_t four;
        std::memcpy(&four, args.input + r * args.input_stride + kBlockInputs * args.columns[b + c], sizeof(four));
        sum[c][r] = _mm512_dpbusd_epi32(sum[c][r], _mm512_set1_epi32(static_cast<int>(four)), w);
      }
    }
  }
  for (; b < args.num_blocks; ++b) {
    ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) {
      uint32_t four;
      std::memcpy(&four, args.input + r * args.input_stride + kBlockInputs * args.columns[b], sizeof(four));
      const __m512i w = _mm512_load_si512(args.blocks + b * kBlockBytes);
      sum[0][r] = _mm512_dpbusd_epi32(sum[0][r], _mm512_set1_epi32(static_cast<int>(four)), w);
    }
  }
  ANTIPHON_UNROLL for (int r = 0; r < kRows; ++r) {
    ANTIPHON_UNROLL for (int c = 1; c < kChains; ++c) sum[0][r] = _mm512_add_epi32(sum[0][r], sum[c][r]);
    _mm512_storeu_si512(args.out + r * args.out_stride, sum[0][r]);
  }
}

void SparseVnni(const SparseTileArgs& args) {
  using Function = void (*)(const SparseTileArgs&);
  static constexpr Function kByRows[kTileRows] = {&Vnni<1>, &Vnni<2>, &Vnni<3>, &Vnni<4>, &Vnni<5>, &Vnni<6>};
  if (args.rows > 0) kByRows[args.rows - 1](args);
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace antiphon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace antiphon {
namespace {

#if HWY_TARGETS & HWY_NEON
REGISTER_KERNEL(SparseTileOp, DeviceKind::kCpu, DataType::kInt8, "neon", 0, &N_NEON::SparseWidened);
#endif
#if HWY_TARGETS & HWY_SSE4
REGISTER_KERNEL(SparseTileOp, DeviceKind::kCpu, DataType::kInt8, "sse4", 0, &N_SSE4::SparseWidened);
#endif
#if HWY_TARGETS & HWY_AVX2
REGISTER_KERNEL(SparseTileOp, DeviceKind::kCpu, DataType::kInt8, "avx2", 0, &N_AVX2::SparseWidened);
#endif
#if HWY_TARGETS & HWY_AVX3
REGISTER_KERNEL(SparseTileOp, DeviceKind::kCpu, DataType::kInt8, "avx512", 0, &N_AVX3::SparseWidened);
REGISTER_KERNEL(SparseTileOp, DeviceKind::kCpu, DataType::kInt8, "avx512-vnni", 0, &N_AVX3::SparseVnni);
#endif

}  // namespace
}  // namespace antiphon
#endif
