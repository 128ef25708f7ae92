#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/shapes.h"
#include "kernels/softmax.h"

namespace antiphon {
namespace {

double LogSum(std::span<const float> z) {
  double max = -HUGE_VAL;
  for (const float v : z) max = std::max(max, static_cast<double>(v));
  double sum = 0;
  for (const float v : z) sum += std::exp(static_cast<double>(v) - max);
  return max + std::log(sum);
}

void SoftmaxRef(bool log, ConstMatrixView z, MatrixView y) {
  ExpectSameShape("a softmax", z, y);
  for (int64_t r = 0; r < z.rows(); ++r) {
    const double log_sum = z.cols() > 0 ? LogSum(z.Row(r)) : 0;
    for (int64_t c = 0; c < z.cols(); ++c) {
      const double v = static_cast<double>(z(r, c)) - log_sum;
      y(r, c) = static_cast<float>(log ? v : std::exp(v));
    }
  }
}

void CrossEntropyRef(ConstMatrixView z, const int32_t* targets, const float* scales, FrameLoss* losses, MatrixView dz) {
  for (int64_t r = 0; r < z.rows(); ++r) {
    const int32_t t = targets[r];
    if (t < 0 || t >= z.cols()) Throw<InputError>("frame {}: target {} is outside 0 … {}", r, t, z.cols() - 1);
    const double log_sum = LogSum(z.Row(r));
    int64_t best = 0;
    for (int64_t c = 1; c < z.cols(); ++c) {
      if (z(r, c) > z(r, best)) best = c;
    }
    losses[r] = {log_sum - static_cast<double>(z(r, t)), best == t};
    if (dz.empty()) continue;
    for (int64_t c = 0; c < z.cols(); ++c) {
      const double p = std::exp(static_cast<double>(z(r, c)) - log_sum);
      dz(r, c) = scales[r] * static_cast<float>(p - (c == t ? 1 : 0));
    }
  }
}

REGISTER_KERNEL(SoftmaxOp, DeviceKind::kCpu, DataType::kFloat32, "ref", 0, &SoftmaxRef);
REGISTER_KERNEL(SoftmaxCrossEntropyOp, DeviceKind::kCpu, DataType::kFloat32, "ref", 0, &CrossEntropyRef);

}  // namespace
}  // namespace antiphon
