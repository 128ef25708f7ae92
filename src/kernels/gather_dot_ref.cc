#include "kernels/gather_dot.h"

namespace antiphon {
namespace {

void GatherDot(const uint8_t* input, int64_t input_stride, int rows, const int8_t* weights, int64_t depth,
               int32_t* out) {
  for (int r = 0; r < rows; ++r) {
    out[r] = 0;
    for (int64_t i = 0; i < depth; ++i) out[r] += int32_t{input[r * input_stride + i]} * int32_t{weights[i]};
  }
}

REGISTER_KERNEL(GatherDotOp, DeviceKind::kCpu, DataType::kInt8, "portable", 0, &GatherDot);

}  // namespace
}  // namespace antiphon
