#include <bit>

#include "kernels/binary_tile.h"
#include "kernels/dense_tile.h"

namespace antiphon {
namespace {

void BinaryTile(const BinaryTileArgs& args) {
  for (int r = 0; r < args.rows; ++r) {
    for (int64_t o = 0; o < kPanelOutputs; ++o) {
      int64_t different = 0;
      for (int64_t w = 0; w < args.words; ++w) {
        different += std::popcount(args.input[r * args.input_stride + w] ^ args.panel[w * kPanelOutputs + o]);
      }
      args.out[r * kPanelOutputs + o] = static_cast<int32_t>(args.depth - 2 * different);
    }
  }
}

REGISTER_KERNEL(BinaryTileOp, DeviceKind::kCpu, DataType::kInt8, "portable", 0, &BinaryTile);

}  // namespace
}  // namespace antiphon
