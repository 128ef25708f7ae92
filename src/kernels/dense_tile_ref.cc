#include <cstring>

#include "kernels/dense_tile.h"
#include "math/bf16.h"

namespace antiphon {
namespace {

template <class In, class Weight, class Sum, int kGroup>
void Tile(const DenseTileArgs& args, Sum (*product)(In, Weight)) {
  for (int r = 0; r < args.rows; ++r) {
    const auto* input = reinterpret_cast<const In*>(static_cast<const char*>(args.input) + r * args.input_stride);
    const auto* weights = static_cast<const Weight*>(args.panel);
    Sum sums[kPanelOutputs] = {};
    for (int64_t g = 0; g < args.groups; ++g) {
      for (int64_t o = 0; o < kPanelOutputs; ++o) {
        for (int i = 0; i < kGroup; ++i) sums[o] += product(input[g * kGroup + i], *weights++);
      }
    }
    std::memcpy(static_cast<Sum*>(args.out) + r * kPanelOutputs, sums, sizeof(sums));
  }
}

void Fp32(const DenseTileArgs& args) {
  Tile<float, float, float, 1>(args, [](float x, float w) { return x * w; });
}
void HalfPrecision(const DenseTileArgs& args) {
  Tile<Bf16, Bf16, float, 2>(args, [](Bf16 x, Bf16 w) { return ToFloat(x) * ToFloat(w); });
}
void Int8(const DenseTileArgs& args) {
  Tile<uint8_t, int8_t, int32_t, 4>(args, [](uint8_t x, int8_t w) { return int32_t{x} * int32_t{w}; });
}

REGISTER_KERNEL(DenseTileOp, DeviceKind::kCpu, DataType::kFloat32, "portable", 0, &Fp32);
REGISTER_KERNEL(DenseTileOp, DeviceKind::kCpu, DataType::kBf16, "portable", 0, &HalfPrecision);
REGISTER_KERNEL(DenseTileOp, DeviceKind::kCpu, DataType::kInt8, "portable", 0, &Int8);

}  // namespace
}  // namespace antiphon
