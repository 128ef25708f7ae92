// Holds Highway's choice of instruction set to what the process may use (base/isa.h), before anything computes.
#include <hwy/targets.h>

#include "base/error.h"
#include "base/isa.h"

namespace antiphon {
namespace {

// Better targets have lower bits.
int64_t TargetsAbove(Isa limit) {
  if (limit < Isa::kSse4) return HWY_EMU128 - 1;
  if (limit < Isa::kAvx2) return HWY_SSE4 - 1;
  if (limit < Isa::kAvx512) return HWY_AVX2 - 1;
  return 0;
}

[[maybe_unused]] const bool limited = [] {
#if HWY_ARCH_X86
  try {
    hwy::DisableTargets(TargetsAbove(BestIsa()));
  } catch (const UsageError&) {
    // A wrong name is told where the first product or network asks for it: nobody could catch it here.
  }
#endif
  return true;
}();

}  // namespace
}  // namespace antiphon
