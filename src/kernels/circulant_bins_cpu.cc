#include "kernels/circulant_bins.h"
#include "kernels/x86_targets.h"

#define HWY_DISABLED_TARGETS HWY_SSSE3
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/circulant_bins_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace antiphon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <int kFrames, bool kComplex>
void Bin(const CirculantBinArgs& args) {
  const hn::CappedTag<float, 16> d;
  constexpr int64_t kLanes = hn::MaxLanes(decltype(d)());
  for (int64_t first = 0; first < kBinOutputs; first += kLanes) {
    hn::Vec<decltype(d)> real[kFrames], imaginary[kFrames];
    ANTIPHON_UNROLL for (int f = 0; f < kFrames; ++f) real[f] = imaginary[f] = hn::Zero(d);
    const float* spectrum = args.spectrum + first;
    const float* x = args.in;
    for (int64_t j = 0; j < args.in_blocks; ++j, spectrum += 2 * kBinOutputs, x += args.block_stride) {
      const auto c = hn::LoadU(d, spectrum);
      const auto e = hn::LoadU(d, spectrum + kBinOutputs);
      ANTIPHON_UNROLL for (int f = 0; f < kFrames; ++f) {
        const auto a = hn::Set(d, x[f * args.frame_stride + args.real_at]);
        real[f] = hn::MulAdd(a, c, real[f]);
        if constexpr (kComplex) {
          const auto b = hn::Set(d, x[f * args.frame_stride + args.imaginary_at]);
          imaginary[f] = hn::MulAdd(a, e, imaginary[f]);
          real[f] = hn::NegMulAdd(b, e, real[f]);
          imaginary[f] = hn::MulAdd(b, c, imaginary[f]);
        }
      }
    }
    ANTIPHON_UNROLL for (int f = 0; f < kFrames; ++f) {
      hn::StoreU(real[f], d, args.out + f * 2 * kBinOutputs + first);
      hn::StoreU(imaginary[f], d, args.out + (f * 2 + 1) * kBinOutputs + first);
    }
  }
}

void CirculantBin(const CirculantBinArgs& args) {
  using Function = void (*)(const CirculantBinArgs&);
  static constexpr Function kComplex[kBinFrames] = {&Bin<1, true>, &Bin<2, true>, &Bin<3, true>, &Bin<4, true>};
  static constexpr Function kReal[kBinFrames] = {&Bin<1, false>, &Bin<2, false>, &Bin<3, false>, &Bin<4, false>};
  if (args.frames > 0) (args.imaginary_at < 0 ? kReal : kComplex)[args.frames - 1](args);
}

}  // namespace HWY_NAMESPACE
}  // namespace antiphon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace antiphon {
namespace {

#define ANTIPHON_REGISTER(ns, isa, function) \
  REGISTER_KERNEL(CirculantBinOp, DeviceKind::kCpu, DataType::kFloat32, isa, 0, &ns::function)

#if HWY_TARGETS & HWY_NEON
ANTIPHON_REGISTER(N_NEON, "neon", CirculantBin);
#endif
#if HWY_TARGETS & HWY_SSE4
ANTIPHON_REGISTER(N_SSE4, "sse4", CirculantBin);
#endif
#if HWY_TARGETS & HWY_AVX2
ANTIPHON_REGISTER(N_AVX2, "avx2", CirculantBin);
#endif
#if HWY_TARGETS & HWY_AVX3
ANTIPHON_REGISTER(N_AVX3, "avx512", CirculantBin);
#endif

}  // namespace
}  // namespace antiphon
#endif
