// Sums of the squared gradients of single frames: the diagonal of the empirical Fisher matrix.
//
// The gradient of frame n is g_n·x_nᵀ, so that the sum of their squares is (g²)ᵀ(x²), one product of squared factors.
// Layout: as the network's values. Units: squares of derivatives as they come, of the loss averaged over a minibatch.
// Source: Martens, ICML 2010 (preconditioner).
#pragma once

#include <span>
#include <vector>

#include "nn/gradient_sink.h"

namespace antiphon::optim {

/// Adds Σ over frames of squared gradients where a layer hands over factors; what comes as a whole is squared as it is.
class SquaredGradientSink : public nn::GradientSink {
 public:
  explicit SquaredGradientSink(std::span<float> squares) : sum_(squares) {}
  void TakeFactors(nn::Parameter& weight, nn::Parameter* bias, const nn::GradientFactors& factors) override {
    nn::GradientFactors squared;
    squared.x = Square(factors.x, x_);
    squared.g = Square(factors.g, g_);
    bias_input_.assign(factors.bias_input.begin(), factors.bias_input.end());
    for (float& b : bias_input_) b *= b;
    squared.bias_input = bias_input_;
    sum_.TakeFactors(weight, bias, squared);
  }
  void TakeDense(nn::Parameter& parameter, ConstMatrixView gradient) override {
    sum_.TakeDense(parameter, Square(gradient, x_));
  }

 private:
  static ConstMatrixView Square(ConstMatrixView values, Matrix& place) {
    place.Resize(values.rows(), values.cols());
    for (int64_t r = 0; r < values.rows(); ++r) {
      for (int64_t c = 0; c < values.cols(); ++c) place(r, c) = values(r, c) * values(r, c);
    }
    return place;
  }
  nn::DenseGradientSink sum_;
  Matrix x_;
  Matrix g_;
  std::vector<float> bias_input_;
};

/// Hands each gradient to two.
class BothSinks : public nn::GradientSink {
 public:
  BothSinks(nn::GradientSink& first, nn::GradientSink& second) : first_(first), second_(second) {}
  void TakeFactors(nn::Parameter& weight, nn::Parameter* bias, const nn::GradientFactors& factors) override {
    first_.TakeFactors(weight, bias, factors);
    second_.TakeFactors(weight, bias, factors);
  }
  void TakeDense(nn::Parameter& parameter, ConstMatrixView gradient) override {
    first_.TakeDense(parameter, gradient);
    second_.TakeDense(parameter, gradient);
  }

 private:
  nn::GradientSink& first_;
  nn::GradientSink& second_;
};

}  // namespace antiphon::optim
