#include "math/minimal_filter.h"

#include <cmath>
#include <vector>

#include "base/check.h"

namespace antiphon {
namespace {

// Values of the polynomials are taken here and at infinity. Small powers and reciprocals keep the rounding small.
constexpr std::array<double, MinimalFilter::kMostProducts - 1> kPoints = {0, 1, -1, 2, -0.5};

// Coefficients of Π (x − p) over the first `count` points without number `skipped`, lowest first.
std::vector<double> Product(int count, int skipped) {
  std::vector<double> c = {1};
  for (int p = 0; p < count; ++p) {
    if (p == skipped) continue;
    c.push_back(0);
    for (size_t i = c.size(); i-- > 0;) c[i] = (i > 0 ? c[i - 1] : 0) - kPoints[static_cast<size_t>(p)] * c[i];
  }
  return c;
}

void SetBoth(double value, int row, int rows, int col, int cols, float* matrix, float* transposed) {
  matrix[row * cols + col] = static_cast<float>(value);
  transposed[col * rows + row] = static_cast<float>(value);
}

}  // namespace

const MinimalFilter& MinimalFilter::OfTaps(int taps) {
  static const MinimalFilter two(2), three(3);
  CHECK(taps >= kLeastTaps && taps <= kMostTaps) << taps;
  return taps == 2 ? two : three;
}

// The product of two polynomials, of as many coefficients as there are outputs and taps, by values at points and
// interpolation; read backwards, from the product's coefficients to one factor's, it is the filter.
MinimalFilter::MinimalFilter(int its_taps) : taps(its_taps), products(kOutputs + its_taps - 1) {
  const int finite = products - 1;
  for (int p = 0; p < products; ++p) {
    const double point = p < finite ? kPoints[static_cast<size_t>(p)] : 0;
    const auto power = [&](int i, int count) { return p < finite ? std::pow(point, i) : (i + 1 == count ? 1.0 : 0.0); };
    for (int k = 0; k < taps; ++k) SetBoth(power(k, taps), p, products, k, taps, of_taps.data(), to_taps.data());
    for (int i = 0; i < kOutputs; ++i) {
      SetBoth(power(i, kOutputs), i, kOutputs, p, products, to_outputs.data(), of_outputs.data());
      to_biased_outputs[static_cast<size_t>(i * (products + 1) + p)] = static_cast<float>(power(i, kOutputs));
      to_biased_outputs[static_cast<size_t>(i * (products + 1) + products)] = 1;
    }
    const std::vector<double> basis = Product(finite, p < finite ? p : -1);
    double at_point = 1;
    for (int q = 0; q < finite && p < finite; ++q) at_point *= q == p ? 1 : point - kPoints[static_cast<size_t>(q)];
    for (size_t i = 0; i < basis.size(); ++i) {
      SetBoth(basis[i] / at_point, p, products, static_cast<int>(i), products, of_inputs.data(), to_inputs.data());
    }
  }
}

}  // namespace antiphon
