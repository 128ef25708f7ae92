#include <cmath>

#include "kernels/update.h"

namespace antiphon {
namespace {

void MomentumRef(const MomentumRates& r, const float* g, float* v, float* w, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float gradient = g[i] + r.decay * w[i];
    v[i] = r.momentum * v[i] + gradient;
    const float step = r.nesterov ? gradient + r.momentum * v[i] : v[i];
    w[i] = r.shrink * w[i] - r.rate * step;
  }
}

void AdamRef(const AdamRates& r, const float* g, float* m, float* s, float* w, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float gradient = g[i] + r.decay * w[i];
    m[i] = r.beta1 * m[i] + (1 - r.beta1) * gradient;
    s[i] = r.beta2 * s[i] + (1 - r.beta2) * gradient * gradient;
    w[i] = r.shrink * w[i] - r.rate * (m[i] * r.correction1) / (std::sqrt(s[i] * r.correction2) + r.epsilon);
  }
}

REGISTER_KERNEL(MomentumStepOp, DeviceKind::kCpu, DataType::kFloat32, "ref", 0, &MomentumRef);
REGISTER_KERNEL(AdamStepOp, DeviceKind::kCpu, DataType::kFloat32, "ref", 0, &AdamRef);

}  // namespace
}  // namespace antiphon
