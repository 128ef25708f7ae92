#include "kernels/circulant_bins.h"

namespace antiphon {
namespace {

void CirculantBin(const CirculantBinArgs& args) {
  for (int f = 0; f < args.frames; ++f) {
    float* out = args.out + f * 2 * kBinOutputs;
    for (int64_t o = 0; o < kBinOutputs; ++o) {
      float real = 0, imaginary = 0;
      for (int64_t j = 0; j < args.in_blocks; ++j) {
        const float* x = args.in + f * args.frame_stride + j * args.block_stride;
        const float a = x[args.real_at], b = args.imaginary_at < 0 ? 0.0F : x[args.imaginary_at];
        const float c = args.spectrum[j * 2 * kBinOutputs + o], d = args.spectrum[(j * 2 + 1) * kBinOutputs + o];
        real += a * c - b * d;
        imaginary += a * d + b * c;
      }
      out[o] = real;
      out[kBinOutputs + o] = imaginary;
    }
  }
}

REGISTER_KERNEL(CirculantBinOp, DeviceKind::kCpu, DataType::kFloat32, "portable", 0, &CirculantBin);

}  // namespace
}  // namespace antiphon
