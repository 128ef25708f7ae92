#include "math/minimal_filter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"

namespace antiphon {
namespace {

constexpr int kOutputs = MinimalFilter::kOutputs;

// matrix [rows, cols] times v, rounded to float as the products' factors are.
std::vector<float> Times(const float* matrix, int rows, int cols, const std::vector<float>& v) {
  std::vector<float> y(static_cast<size_t>(rows));
  for (int r = 0; r < rows; ++r) {
    float sum = 0;
    for (int c = 0; c < cols; ++c) sum = std::fma(matrix[r * cols + c], v[static_cast<size_t>(c)], sum);
    y[static_cast<size_t>(r)] = sum;
  }
  return y;
}

std::vector<float> Random(int n, Rng& rng) {
  std::vector<float> v(static_cast<size_t>(n));
  for (float& value : v) value = static_cast<float>(rng.Normal());
  return v;
}

class MinimalFilterTest : public ::testing::TestWithParam<int> {
 protected:
  const MinimalFilter& filter_ = MinimalFilter::OfTaps(GetParam());
  const int taps_ = GetParam();
  const int products_ = filter_.products;
};

TEST_P(MinimalFilterTest, FiltersWithOneProductPerInput) {
  EXPECT_EQ(products_, kOutputs + taps_ - 1);
  Rng rng(1);
  // Sums over many channels, as layers have them: the rounding of a sum of `kDepth` products.
  constexpr int kDepth = 512, kTrials = 20;
  double error = 0, plain_error = 0, squares = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<float> sums(static_cast<size_t>(products_)), plain(kOutputs);
    std::vector<double> exact(kOutputs);
    for (int d = 0; d < kDepth; ++d) {
      const std::vector<float> x = Random(products_, rng), w = Random(taps_, rng);
      const auto u = Times(filter_.of_inputs.data(), products_, products_, x);
      const auto v = Times(filter_.of_taps.data(), products_, taps_, w);
      for (size_t p = 0; p < sums.size(); ++p) sums[p] = std::fma(u[p], v[p], sums[p]);
      for (size_t i = 0; i < kOutputs; ++i) {
        for (size_t k = 0; k < w.size(); ++k) {
          plain[i] = std::fma(w[k], x[i + k], plain[i]);
          exact[i] += static_cast<double>(w[k]) * static_cast<double>(x[i + k]);
        }
      }
    }
    const auto y = Times(filter_.to_outputs.data(), kOutputs, products_, sums);
    for (size_t i = 0; i < kOutputs; ++i) {
      error += std::pow(static_cast<double>(y[i]) - exact[i], 2);
      plain_error += std::pow(static_cast<double>(plain[i]) - exact[i], 2);
      squares += exact[i] * exact[i];
    }
  }
  EXPECT_LT(std::sqrt(error / squares), 3e-6);
  EXPECT_LT(std::sqrt(error), 5 * std::sqrt(plain_error));
}

// With the transposed matrices, against the definition of the derivatives.
TEST_P(MinimalFilterTest, GivesTheDerivatives) {
  Rng rng(2);
  const std::vector<float> x = Random(products_, rng), w = Random(taps_, rng), dy = Random(kOutputs, rng);
  auto of_x = Times(filter_.of_inputs.data(), products_, products_, x);
  auto of_w = Times(filter_.of_taps.data(), products_, taps_, w);
  const auto of_dy = Times(filter_.of_outputs.data(), products_, kOutputs, dy);
  for (size_t p = 0; p < of_dy.size(); ++p) {
    of_x[p] *= of_dy[p];
    of_w[p] *= of_dy[p];
  }
  const auto dx = Times(filter_.to_inputs.data(), products_, products_, of_w);
  const auto dw = Times(filter_.to_taps.data(), taps_, products_, of_x);
  std::vector<double> expected_dx(x.size()), expected_dw(w.size());
  for (size_t i = 0; i < dy.size(); ++i) {
    for (size_t k = 0; k < w.size(); ++k) {
      expected_dx[i + k] += static_cast<double>(w[k]) * static_cast<double>(dy[i]);
      expected_dw[k] += static_cast<double>(x[i + k]) * static_cast<double>(dy[i]);
    }
  }
  for (size_t j = 0; j < x.size(); ++j) EXPECT_NEAR(dx[j], expected_dx[j], 1e-5);
  for (size_t k = 0; k < w.size(); ++k) EXPECT_NEAR(dw[k], expected_dw[k], 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Taps, MinimalFilterTest,
                         ::testing::Range(MinimalFilter::kLeastTaps, MinimalFilter::kMostTaps + 1));

}  // namespace
}  // namespace antiphon
