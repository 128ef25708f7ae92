#include "math/gemm.h"

#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/suggest.h"
#include "math/blas_threads.h"
#include "math/product.h"
#include "math/product_library.h"

namespace antiphon {
namespace {

template <class T>
void CheckShapes(Transpose trans_a, BasicMatrixView<const T> a, Transpose trans_b, BasicMatrixView<const T> b,
                 int64_t rows, int64_t cols) {
  const int64_t m = trans_a == Transpose::kYes ? a.cols() : a.rows();
  const int64_t ka = trans_a == Transpose::kYes ? a.rows() : a.cols();
  const int64_t kb = trans_b == Transpose::kYes ? b.cols() : b.rows();
  const int64_t n = trans_b == Transpose::kYes ? b.rows() : b.cols();
  if (ka != kb || m != rows || n != cols) {
    Throw<ShapeError>("a product of [{}, {}]{} and [{}, {}]{} does not give [{}, {}]", a.rows(), a.cols(),
                      trans_a == Transpose::kYes ? " transposed" : "", b.rows(), b.cols(),
                      trans_b == Transpose::kYes ? " transposed" : "", rows, cols);
  }
}

// What is left of a product without inner dimension.
void FillEmptyProduct(MatrixView c, const GemmEpilogue& epilogue) {
  for (int64_t r = 0; r < c.rows(); ++r) {
    for (int64_t j = 0; j < c.cols(); ++j) {
      float v = epilogue.accumulate != 0 ? epilogue.accumulate * c(r, j) : 0.0f;
      if (epilogue.bias != nullptr) v += epilogue.bias[j];
      if (epilogue.activation == Activation::kRelu) v = v > 0 ? v : 0;
      if (epilogue.activation == Activation::kSigmoid) v = 1.0f / (1.0f + std::exp(-v));
      if (epilogue.activation == Activation::kTanh) v = std::tanh(v);
      c(r, j) = v;
    }
  }
}

template <class T>
void Run(Transpose trans_a, BasicMatrixView<const T> a, Transpose trans_b, BasicMatrixView<const T> b, float alpha,
         MatrixView c, const GemmEpilogue& epilogue) {
  CheckShapes(trans_a, a, trans_b, b, c.rows(), c.cols());
  CHECK(epilogue.accumulate == 0 || (epilogue.bias == nullptr && epilogue.activation == Activation::kNone));
  const int64_t k = trans_a == Transpose::kYes ? a.rows() : a.cols();
  if (c.empty()) return;
  if (k == 0) return FillEmptyProduct(c, epilogue);
  LibraryFor(sizeof(T) == 2)
      .multiply({.bf16 = sizeof(T) == 2,
                 .m = c.rows(),
                 .n = c.cols(),
                 .k = k,
                 .a = a.data(),
                 .b = b.data(),
                 .lda = a.stride(),
                 .ldb = b.stride(),
                 .trans_a = trans_a == Transpose::kYes,
                 .trans_b = trans_b == Transpose::kYes,
                 .c = c.data(),
                 .ldc = c.stride(),
                 .alpha = alpha,
                 .accumulate = epilogue.accumulate,
                 .bias = epilogue.bias,
                 .activation = epilogue.activation});
}

}  // namespace

Precision ParsePrecision(std::string_view name) {
  if (name == "fp32") return Precision::kFp32;
  if (name == "bf16") return Precision::kBf16;
  if (name == "auto") return FastBf16() ? Precision::kBf16 : Precision::kFp32;
  throw UsageError(UnknownNameMessage("precision", name, {"fp32", "bf16", "auto"}));
}

std::string_view PrecisionName(Precision precision) { return precision == Precision::kBf16 ? "bf16" : "fp32"; }

void Gemm(Transpose trans_a, ConstMatrixView a, Transpose trans_b, ConstMatrixView b, MatrixView c,
          const GemmEpilogue& epilogue) {
  Run<float>(trans_a, a, trans_b, b, 1.0f, c, epilogue);
}

void Gemm(Transpose trans_a, ConstBf16View a, Transpose trans_b, ConstBf16View b, MatrixView c,
          const GemmEpilogue& epilogue) {
  Run<Bf16>(trans_a, a, trans_b, b, 1.0f, c, epilogue);
}

void GemmScaled(Transpose trans_a, ConstMatrixView a, Transpose trans_b, ConstMatrixView b, float alpha, float beta,
                MatrixView c) {
  Run<float>(trans_a, a, trans_b, b, alpha, c, {.accumulate = beta});
}

void GemmScaled(Transpose trans_a, BasicMatrixView<const double> a, Transpose trans_b, BasicMatrixView<const double> b,
                double alpha, double beta, BasicMatrixView<double> c) {
  CheckShapes(trans_a, a, trans_b, b, c.rows(), c.cols());
  const int64_t k = trans_a == Transpose::kYes ? a.rows() : a.cols();
  if (c.empty()) return;
  UseOneBlasThread();
  const auto ld = [](int64_t stride) { return static_cast<int>(std::max<int64_t>(stride, 1)); };
  cblas_dgemm(CblasRowMajor, trans_a == Transpose::kYes ? CblasTrans : CblasNoTrans,
              trans_b == Transpose::kYes ? CblasTrans : CblasNoTrans, static_cast<int>(c.rows()),
              static_cast<int>(c.cols()), static_cast<int>(k), alpha, a.data(), ld(a.stride()), b.data(),
              ld(b.stride()), beta, c.data(), ld(c.stride()));
}

}  // namespace antiphon
