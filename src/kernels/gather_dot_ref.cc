#include "kernels/gather_dot.h"

namespace antiphon {
namespace {

void GatherDot(const GatherDotArgs& args) {
  for (int o = 0; o < args.outputs; ++o) {
    for (int r = 0; r < args.rows; ++r) {
      int32_t sum = 0;
      for (int64_t i = 0; i < args.depth; ++i) {
        sum += int32_t{args.input[r * args.input_stride + i]} * int32_t{args.weights[o][i]};
      }
      args.out[o * kGatherRows + r] = sum;
    }
  }
}

REGISTER_KERNEL(GatherDotOp, DeviceKind::kCpu, DataType::kInt8, "portable", 0, &GatherDot);

}  // namespace
}  // namespace antiphon
