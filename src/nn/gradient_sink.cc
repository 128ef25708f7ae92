#include "nn/gradient_sink.h"

#include "kernels/elementwise.h"
#include "kernels/reductions.h"
#include "math/gemm.h"
#include "nn/shifted_product.h"

namespace antiphon::nn {

void FactorProduct(const GradientFactors& factors, int64_t first_row, float accumulate, MatrixView gradient) {
  if (factors.shifted != nullptr) return ShiftedProduct::Gradient(factors, first_row, accumulate, gradient);
  const int64_t count = gradient.rows();
  if (!factors.x16.empty()) {
    Gemm(Transpose::kYes, factors.g16.Cols(first_row, count), Transpose::kNo, factors.x16, gradient,
         {.accumulate = accumulate});
  } else {
    Gemm(Transpose::kYes, factors.g.Cols(first_row, count), Transpose::kNo, factors.x, gradient,
         {.accumulate = accumulate});
  }
}

void BiasGradient(const GradientFactors& factors, float scale, float accumulate, MatrixView gradient) {
  const float* weights = factors.bias_input.empty() ? nullptr : factors.bias_input.data();
  ColumnSums(scale, factors.g, weights, accumulate, gradient);
}

MatrixView DenseGradientSink::Target(const Parameter& parameter) const {
  const auto end = static_cast<size_t>(parameter.offset + parameter.value.size());
  CHECK_LE(end, gradient_.size()) << parameter.name;
  return {gradient_.data() + parameter.offset, parameter.value.rows(), parameter.value.cols()};
}

void DenseGradientSink::TakeFactors(Parameter& weight, Parameter* bias, const GradientFactors& factors) {
  FactorProduct(factors, 0, 1.0f, Target(weight));
  if (bias != nullptr) BiasGradient(factors, 1.0f, 1.0f, Target(*bias));
}

void DenseGradientSink::TakeDense(Parameter& parameter, ConstMatrixView gradient) {
  AddScaled(1.0f, gradient, Target(parameter));
}

}  // namespace antiphon::nn
