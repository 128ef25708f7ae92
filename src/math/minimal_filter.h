// Minimal filtering: neighbouring outputs of a short filter with fewer products than outputs times taps.
//
//   y_i = Σ_k w_k · x_{i+k}          i < outputs, k < taps
//   y = Aᵀ·[(G·w) ⊙ (Bᵀ·x)]          outputs + taps − 1 products
// The transposed matrices give the derivatives: with v = A·dy,  dx = B·[(G·w) ⊙ v]  and  dw = Gᵀ·[(Bᵀ·x) ⊙ v].
// What is filtered may be anything that can be added and multiplied: frames and matrices of weights here, so that a
// time-delay layer's product over three frames needs half of the multiplications.
// Rounding: sums of a few neighbours are rounded before the products. In fp32 the error is about twice that of the
// plain sum (tests) if the neighbours are of one size; the largest of them says how large it is. Not for coarser
// formats. Source: Winograd, Arithmetic complexity of computations, 1980; built by interpolation as Toom and Cook do;
// Lavin and Gray, Fast algorithms for convolutional neural networks, CVPR 2016.
#pragma once

#include <array>

namespace antiphon {

struct MinimalFilter {
  static constexpr int kOutputs = 4;
  static constexpr int kLeastTaps = 2;
  static constexpr int kMostTaps = 3;
  static constexpr int kMostProducts = kOutputs + kMostTaps - 1;

  /// The filter of 2 or 3 taps.
  static const MinimalFilter& OfTaps(int taps);

  int taps = 0;
  int products = 0;
  /// Row-major, each without gaps: Bᵀ [products, products], G [products, taps], Aᵀ [kOutputs, products], and their
  /// transposes.
  std::array<float, kMostProducts * kMostProducts> of_inputs{}, to_inputs{};
  std::array<float, kMostProducts * kMostTaps> of_taps{}, to_taps{};
  std::array<float, kOutputs * kMostProducts> to_outputs{}, of_outputs{};
  /// Aᵀ with a column of ones, [kOutputs, products + 1]: the bias as one more product.
  std::array<float, kOutputs*(kMostProducts + 1)> to_biased_outputs{};

 private:
  explicit MinimalFilter(int its_taps);
};

}  // namespace antiphon
