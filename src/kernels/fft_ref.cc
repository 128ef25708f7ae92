#include <kissfft/kiss_fftr.h>

#include <memory>
#include <type_traits>
#include <vector>

#include "kernels/fft.h"

namespace antiphon {

void BlockFftPowerRef(int size, const float* block, float* power) {
  const std::unique_ptr<std::remove_pointer_t<kiss_fftr_cfg>, void (*)(void*)> plan(
      kiss_fftr_alloc(size, 0, nullptr, nullptr), [](void* p) { kiss_fftr_free(p); });
  std::vector<float> time(static_cast<size_t>(size));
  std::vector<kiss_fft_cpx> spectrum(static_cast<size_t>(size) / 2 + 1);
  for (int lane = 0; lane < kFrameLanes; ++lane) {
    for (int i = 0; i < size; ++i) time[static_cast<size_t>(i)] = block[i * kFrameLanes + lane];
    kiss_fftr(plan.get(), time.data(), spectrum.data());
    for (int k = 0; k <= size / 2; ++k) {
      const kiss_fft_cpx& x = spectrum[static_cast<size_t>(k)];
      power[k * kFrameLanes + lane] = x.r * x.r + x.i * x.i;
    }
  }
}

}  // namespace antiphon
