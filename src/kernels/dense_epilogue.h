// What follows a dense tile while its sums are in the cache: scales, bias, activation, and the next layer's format.
//
//   int8 sums   y = (sum − row_zero · col_sum) · (row_scale · col_scale) + bias
//   fp32 sums   y = sum + bias
// then the activation, then the factors of the row if it has some, then one of: float; bf16 (to nearest even); unsigned
// 8 bits round(y · out_scale) + out_zero, limited to 0 … 255.
//
// Every step is a single IEEE operation, none fused, exponentials included: all instruction sets give the same bits.
// Sums and the arrays per column hold whole panels (64), `cols` ≤ 64 of them are written. NaN stays NaN as a float, and
// becomes some byte in 8 bits.
// Threads: pure functions. Variants are named by instruction set; DataType is that of the weights (kInt8, or kFloat32
// for float sums).
#pragma once

#include <cstdint>

#include "device/isa_kernel.h"
#include "math/gemm.h"

namespace antiphon {

struct DenseEpilogueArgs {
  const void* sums = nullptr;  // [rows, 64] int32 or float
  int rows = 0;
  int64_t cols = 0;
  const float* row_scale = nullptr;  // int8 only: of the inputs
  const int32_t* row_zero = nullptr;
  const float* col_scale = nullptr;  // int8 only: of the weights
  const int32_t* col_sum = nullptr;
  const float* bias = nullptr;
  Activation activation = Activation::kNone;
  const float* const* row_factors = nullptr;  // null, or per row: null, or factors on all outputs of a layer
  int64_t first_factor = 0;                   // of these columns
  DataType out_type = DataType::kFloat32;     // kInt8: unsigned 8 bits
  void* out = nullptr;
  int64_t out_stride = 0;  // bytes
  float out_scale = 1.0F;
  float out_zero = 0.0F;
};

struct DenseEpilogueOp {
  static constexpr const char* kName = "dense_epilogue";
  using Function = void (*)(const DenseEpilogueArgs& args);
};

/// Rows of floats on their way into an int8 layer: out = round(x · scale) + zero, limited to 0 … 255.
struct QuantizeRowOp {
  static constexpr const char* kName = "quantize_row";
  using Function = void (*)(const float* x, int64_t count, float scale, float zero, uint8_t* out);
};

/// Least and largest value of a row, 0 included; NaN is left out.
struct RowRangeOp {
  static constexpr const char* kName = "row_range";
  using Function = void (*)(const float* x, int64_t count, float* least, float* largest);
};

// Numbers that the reference and the vector code share: exp(x) = 2^n · p(r), the polynomial of the Cephes library.
namespace epilogue {
inline constexpr float kLeast = -87.0F, kLargest = 88.0F;
inline constexpr float kLog2E = 1.44269504F, kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
inline constexpr float kPolynomial[] = {1.9875691500e-4F, 1.3981999507e-3F, 8.3334519073e-3F,
                                        4.1665795894e-2F, 1.6666665459e-1F, 5.0000001201e-1F};
}  // namespace epilogue

}  // namespace antiphon
