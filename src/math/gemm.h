// Matrix products: one place that decides which library, format and instruction set computes them.
//
// Shapes: row-major, any stride; C [m, n] = op(A) [m, k] · op(B) [k, n]. Any of m, n, k may be 0 (k = 0 gives zeros, or
// leaves C when accumulating). C must not overlap A or B.
// Precision: fp32, or bf16 factors with fp32 accumulation into a fp32 C.
// Threads: the caller's compute threads; safe from several threads at once. The number of threads changes no bit
// (math/product.h).
// Errors: ShapeError naming both shapes, before any write.
#pragma once

#include <string>
#include <string_view>

#include "math/activation.h"
#include "math/bf16.h"
#include "math/matrix.h"

namespace antiphon {

/// What the factors of a layer's matrix products are rounded to. Sums and weights stay fp32.
enum class Precision { kFp32, kBf16 };

/// "fp32", "bf16", or "auto" for bf16 where this CPU has instructions for it and fp32 elsewhere; UsageError otherwise.
Precision ParsePrecision(std::string_view name);
std::string_view PrecisionName(Precision precision);

enum class Transpose { kNo, kYes };

/// What happens to the product before it is stored.
struct GemmEpilogue {
  /// C = product + accumulate · C. Each value in use keeps a compiled kernel: 0, 1 or a constant, not a running rate.
  float accumulate = 0.0f;
  const float* bias = nullptr;                // [n], added to every row; not together with accumulate
  Activation activation = Activation::kNone;  // after the bias; not together with accumulate
};

void Gemm(Transpose trans_a, ConstMatrixView a, Transpose trans_b, ConstMatrixView b, MatrixView c,
          const GemmEpilogue& epilogue = {});
void Gemm(Transpose trans_a, ConstBf16View a, Transpose trans_b, ConstBf16View b, MatrixView c,
          const GemmEpilogue& epilogue = {});

/// C = alpha · op(A) · op(B) + beta · C, with C left unread if beta is 0.
void GemmScaled(Transpose trans_a, ConstMatrixView a, Transpose trans_b, ConstMatrixView b, float alpha, float beta,
                MatrixView c);
void GemmScaled(Transpose trans_a, BasicMatrixView<const double> a, Transpose trans_b, BasicMatrixView<const double> b,
                double alpha, double beta, BasicMatrixView<double> c);

/// Whether bf16 products copy their factors into other formats first when the left one is transposed, as gradients of
/// weights have it: then few large products are better than many small ones.
bool CopiesTransposedFactors();

/// Whether this CPU has instructions for bf16 products, so that they are faster than fp32.
bool FastBf16();

/// The library and instruction set in use, for what runs note down: "oneDNN 2.6.3, avx512_core_bf16", "packed, avx2".
std::string GemmBackend();

}  // namespace antiphon
