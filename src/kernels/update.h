// Parameter updates that need the gradient itself: one pass over weights, gradient and state.
//
// Shapes: spans of equal length n.
// Threads: the caller's compute threads; results do not depend on their number.
#pragma once

#include <cstdint>

#include "device/kernel_table.h"

namespace antiphon {

/// v = momentum · v + g + decay · w, then w −= rate · v, or with Nesterov's look-ahead w −= rate · (g + decay · w +
/// momentum · v).
struct MomentumRates {
  float rate = 0;
  float momentum = 0;
  float decay = 0;   // coupled: part of the gradient
  float shrink = 1;  // decoupled: w is multiplied by it first
  bool nesterov = false;
};
struct MomentumStepOp {
  static constexpr const char* kName = "momentum_step";
  using Function = void (*)(const MomentumRates&, const float* g, float* v, float* w, int64_t n);
};

/// m = β₁m + (1 − β₁)g, s = β₂s + (1 − β₂)g², w −= rate · m·c₁ / (√(s·c₂) + ε); c are the corrections 1/(1 − βᵗ).
struct AdamRates {
  float rate = 0;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float correction1 = 1;
  float correction2 = 1;
  float decay = 0;
  float shrink = 1;
};
struct AdamStepOp {
  static constexpr const char* kName = "adam_step";
  using Function = void (*)(const AdamRates&, const float* g, float* m, float* s, float* w, int64_t n);
};

inline void MomentumStep(const MomentumRates& rates, const float* g, float* v, float* w, int64_t n) {
  CpuKernel<MomentumStepOp>()(rates, g, v, w, n);
}
inline void AdamStep(const AdamRates& rates, const float* g, float* m, float* s, float* w, int64_t n) {
  CpuKernel<AdamStepOp>()(rates, g, m, s, w, n);
}

}  // namespace antiphon
