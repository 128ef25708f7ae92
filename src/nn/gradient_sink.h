// Takes the gradient of each parameter, layer by layer from the top, and does with it what the training method wants.
//
// A fully connected layer's gradient comes as its factors: dL/dW = gᵀ·x with x [N, in] the layer's input and g [N, out]
// the derivative with respect to its output. So an update can go straight into the weights (one matrix product, no
// gradient buffer), a preconditioner can work on the factors, and a codec can send them.
// Units: the loss is averaged over the minibatch's frames; factors already contain the 1/N.
// Threads: one sink per training thread, called from that thread only. A sink may change a parameter as soon as it is
// handed over: the layer has finished with the old value.
#pragma once

#include <span>

#include "math/bf16.h"
#include "math/matrix.h"
#include "nn/parameter.h"

namespace antiphon::nn {

struct ShiftedFactors;

struct GradientFactors {
  ConstMatrixView x;
  ConstMatrixView g;
  /// The same rounded to bf16 if the pass ran in bf16, else empty; products for the update are then taken in bf16.
  ConstBf16View x16;
  ConstBf16View g16;
  /// dL/db = gᵀ·bias_input; empty means all ones (the column sums of g). Preconditioners set it.
  std::span<const float> bias_input;
  /// The same product in fewer multiplications (nn/shifted_product.h), which FactorProduct then takes; null: there is
  /// no such way. Whoever changes x or g leaves it null, or scales the product by ShiftedFactors::scale instead.
  const ShiftedFactors* shifted = nullptr;
};

/// gradient = rows first_row … of gᵀ·x, as many as `gradient` has, + accumulate · gradient.
void FactorProduct(const GradientFactors& factors, int64_t first_row, float accumulate, MatrixView gradient);
/// gradient [1, out] = scale · gᵀ·bias_input + accumulate · gradient.
void BiasGradient(const GradientFactors& factors, float scale, float accumulate, MatrixView gradient);

class GradientSink {
 public:
  virtual ~GradientSink() = default;

  /// dL/dweight = gᵀ·x; `bias` [1, out] is null if the layer has none. The factors are valid during the call only.
  virtual void TakeFactors(Parameter& weight, Parameter* bias, const GradientFactors& factors) = 0;

  /// dL/dparameter itself, in the parameter's shape; valid during the call only.
  virtual void TakeDense(Parameter& parameter, ConstMatrixView gradient) = 0;
};

/// Keeps nothing: for backward passes of which only dx is wanted.
class NullGradientSink : public GradientSink {
 public:
  void TakeFactors(Parameter&, Parameter*, const GradientFactors&) override {}
  void TakeDense(Parameter&, ConstMatrixView) override {}
};

/// Adds all gradients into one contiguous span laid out as the network's values (Parameter::offset).
class DenseGradientSink : public GradientSink {
 public:
  /// `gradient` has Network::num_values() elements and outlives the sink.
  explicit DenseGradientSink(std::span<float> gradient) : gradient_(gradient) {}
  void TakeFactors(Parameter& weight, Parameter* bias, const GradientFactors& factors) override;
  void TakeDense(Parameter& parameter, ConstMatrixView gradient) override;

 private:
  MatrixView Target(const Parameter& parameter) const;
  std::span<float> gradient_;
};

}  // namespace antiphon::nn
