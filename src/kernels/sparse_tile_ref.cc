#include "kernels/sparse_tile.h"

namespace antiphon {
namespace {

void SparseTile(const SparseTileArgs& args) {
  for (int r = 0; r < args.rows; ++r) {
    int32_t sums[kBlockOutputs] = {};
    for (int64_t b = 0; b < args.num_blocks; ++b) {
      const uint8_t* x = args.input + r * args.input_stride + kBlockInputs * args.columns[b];
      const int8_t* w = args.blocks + b * kBlockBytes;
      for (int64_t o = 0; o < kBlockOutputs; ++o) {
        for (int64_t i = 0; i < kBlockInputs; ++i) sums[o] += int32_t{x[i]} * int32_t{w[o * kBlockInputs + i]};
      }
    }
    for (int64_t o = 0; o < kBlockOutputs; ++o) args.out[r * args.out_stride + o] = sums[o];
  }
}

REGISTER_KERNEL(SparseTileOp, DeviceKind::kCpu, DataType::kInt8, "portable", 0, &SparseTile);

}  // namespace
}  // namespace antiphon
