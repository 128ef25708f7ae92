#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/dense_epilogue.h"
#include "math/bf16.h"

namespace antiphon {
namespace {

float Exp(float x) {
  using namespace epilogue;
  x = std::min(std::max(x, kLeast), kLargest);
  const float n = std::nearbyint(x * kLog2E);
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = kPolynomial[0];
  for (int i = 1; i < 6; ++i) p = p * r + kPolynomial[i];
  p = (p * r) * r + r + 1.0F;
  return p * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
}

float Sigmoid(float x) { return 1.0F / (1.0F + Exp(-x)); }

float Activate(Activation activation, float x) {
  if (std::isnan(x)) return x;
  switch (activation) {
    case Activation::kRelu:
      return x < 0 ? 0 : x;
    case Activation::kSigmoid:
      return Sigmoid(x);
    case Activation::kTanh:
      return 2.0F * Sigmoid(2.0F * x) - 1.0F;
    default:
      return x;
  }
}

// NaN becomes 0.
uint8_t Quantize(float x, float scale, float zero) {
  return static_cast<uint8_t>(std::min(std::max(0.0F, std::nearbyint(x * scale) + zero), 255.0F));
}

template <class Sum>
void Epilogue(const DenseEpilogueArgs& args) {
  for (int r = 0; r < args.rows; ++r) {
    const Sum* sums = static_cast<const Sum*>(args.sums) + r * 64;
    char* out = static_cast<char*>(args.out) + r * args.out_stride;
    const float* const factors = args.row_factors == nullptr ? nullptr : args.row_factors[r];
    for (int64_t c = 0; c < args.cols; ++c) {
      float y;
      if constexpr (std::is_same_v<Sum, int32_t>) {
        y = static_cast<float>(sums[c] - args.row_zero[r] * args.col_sum[c]) * (args.row_scale[r] * args.col_scale[c]);
      } else {
        y = sums[c];
      }
      y = Activate(args.activation, y + args.bias[c]);
      if (factors != nullptr) y *= factors[args.first_factor + c];
      if (args.out_type == DataType::kFloat32) reinterpret_cast<float*>(out)[c] = y;
      if (args.out_type == DataType::kBf16) reinterpret_cast<Bf16*>(out)[c] = ToBf16(y);
      if (args.out_type == DataType::kInt8) {
        reinterpret_cast<uint8_t*>(out)[c] = Quantize(y, args.out_scale, args.out_zero);
      }
    }
  }
}

void QuantizeRow(const float* x, int64_t count, float scale, float zero, uint8_t* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = Quantize(x[i], scale, zero);
}

void RowRange(const float* x, int64_t count, float* least, float* largest) {
  *least = *largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (x[i] < *least) *least = x[i];
    if (x[i] > *largest) *largest = x[i];
  }
}

REGISTER_KERNEL(DenseEpilogueOp, DeviceKind::kCpu, DataType::kFloat32, "portable", 0, &Epilogue<float>);
REGISTER_KERNEL(DenseEpilogueOp, DeviceKind::kCpu, DataType::kInt8, "portable", 0, &Epilogue<int32_t>);
REGISTER_KERNEL(QuantizeRowOp, DeviceKind::kCpu, DataType::kInt8, "portable", 0, &QuantizeRow);
REGISTER_KERNEL(RowRangeOp, DeviceKind::kCpu, DataType::kFloat32, "portable", 0, &RowRange);

}  // namespace
}  // namespace antiphon
