// Gauss–Newton products against an explicit Jᵀ·H·J in double, and conjugate gradients on quadratics with known minima.
#include "optim/gauss_newton.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "nn/loss.h"
#include "optim/conjugate_gradient.h"
#include "optim/lbfgs.h"
#include "optim/squared_gradient.h"
#include "random_direction.h"

namespace antiphon::optim {
namespace {

constexpr int kIn = 4;
constexpr int kOut = 3;
constexpr int kFrames = 6;

// The network of MakeNetwork in double, written out by hand.
std::vector<double> Logits(std::span<const double> theta, const nn::Network& network, std::span<const float> x) {
  const auto parameter = [&](size_t i) { return network.parameters()[i]; };
  const auto affine = [&](size_t i, const std::vector<double>& in) {
    const nn::Parameter& w = *parameter(i);
    std::vector<double> out;
    for (int64_t r = 0; r < w.value.rows(); ++r) {
      double sum = theta[static_cast<size_t>(parameter(i + 1)->offset + r)];
      for (int64_t c = 0; c < w.value.cols(); ++c) {
        sum += theta[static_cast<size_t>(w.offset + r * w.value.cols() + c)] * in[static_cast<size_t>(c)];
      }
      out.push_back(sum);
    }
    return out;
  };
  std::vector<double> h = affine(0, {x.begin(), x.end()});
  for (double& v : h) v = 1 / (1 + std::exp(-v));
  h = affine(2, h);
  double norm = 0;
  for (const double v : h) norm += v * v;
  for (double& v : h) v *= std::sqrt(static_cast<double>(h.size()) / norm);
  h = affine(4, h);
  for (double& v : h) v = std::tanh(v);
  return affine(6, h);
}

nn::Network MakeNetwork() {
  return {Config::Parse("[[layer]]\ntype = \"affine\"\ndim = 5\n[[layer]]\ntype = \"sigmoid\"\n"
                        "[[layer]]\ntype = \"affine\"\ndim = 5\n[[layer]]\ntype = \"renorm\"\n"
                        "[[layer]]\ntype = \"affine\"\ndim = 5\n[[layer]]\ntype = \"tanh\"\n"
                        "[[layer]]\ntype = \"affine\"\n",
                        "net"),
          kIn, kOut, 7};
}

Matrix Frames() {
  Matrix x(kFrames, kIn);
  Rng rng(3);
  for (int64_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(rng.Normal());
  return x;
}

// (1/N)·Σ Jᵀ·H·J·v, with J·v and Jᵀ·u by central differences of the network in double.
std::vector<double> ExplicitProduct(nn::Network& network, const Matrix& x, std::span<const float> v) {
  constexpr double kStep = 1e-6;
  const std::vector<double> theta(network.values().begin(), network.values().end());
  std::vector<double> product(theta.size(), 0.0);
  for (int64_t n = 0; n < x.rows(); ++n) {
    const auto at = [&](const std::vector<double>& t) { return Logits(t, network, x.Row(n)); };
    std::vector<double> plus = theta;
    std::vector<double> minus = theta;
    for (size_t i = 0; i < theta.size(); ++i) {
      plus[i] += kStep * static_cast<double>(v[i]);
      minus[i] -= kStep * static_cast<double>(v[i]);
    }
    const std::vector<double> a = at(plus);
    const std::vector<double> b = at(minus);
    std::vector<double> y = at(theta);
    double sum = 0;
    for (double& z : y) sum += z = std::exp(z);
    std::vector<double> u(y.size());
    double mean = 0;
    for (size_t k = 0; k < y.size(); ++k) {
      y[k] /= sum;
      u[k] = (a[k] - b[k]) / (2 * kStep);
      mean += y[k] * u[k];
    }
    for (size_t k = 0; k < y.size(); ++k) u[k] = y[k] * (u[k] - mean);
    for (const nn::Parameter* p : network.parameters()) {
      for (int64_t j = 0; j < p->value.size(); ++j) {
        const auto i = static_cast<size_t>(p->offset + j);
        std::vector<double> moved = theta;
        moved[i] += kStep;
        const std::vector<double> up = at(moved);
        moved[i] -= 2 * kStep;
        const std::vector<double> down = at(moved);
        for (size_t k = 0; k < u.size(); ++k) {
          product[i] += u[k] * (up[k] - down[k]) / (2 * kStep) / static_cast<double>(x.rows());
        }
      }
    }
  }
  return product;
}

double Dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

TEST(GaussNewton, EqualsTheExplicitMatrix) {
  nn::Network network = MakeNetwork();
  const Matrix x = Frames();
  GaussNewton gauss_newton(network);
  const std::vector<float> v = Direction(network, 1);
  std::vector<float> product(v.size());
  nn::Workspace ws;
  gauss_newton.Product({}, x, {}, v, product, ws);
  const std::vector<double> expected = ExplicitProduct(network, x, v);
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += std::pow(static_cast<double>(product[i]) - expected[i], 2);
    norm += expected[i] * expected[i];
  }
  EXPECT_GT(norm, 1e-4);
  EXPECT_LT(std::sqrt(error / norm), 1e-5);
}

TEST(GaussNewton, IsSymmetricAndPositive) {
  nn::Network network = MakeNetwork();
  const Matrix x = Frames();
  GaussNewton gauss_newton(network);
  nn::Workspace ws;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const std::vector<float> u = Direction(network, 2 * seed);
    const std::vector<float> v = Direction(network, 2 * seed + 1);
    std::vector<float> gu(u.size());
    std::vector<float> gv(v.size());
    gauss_newton.Product({}, x, {}, u, gu, ws);
    gauss_newton.Product({}, x, {}, v, gv, ws);
    EXPECT_NEAR(Dot(u, gv), Dot(v, gu), 1e-5 * std::sqrt(Dot(u, gu) * Dot(v, gv)));
    EXPECT_GE(Dot(v, gv), 0);
  }
}

TEST(GaussNewton, RefusesLayersThatItCannotDifferentiate) {
  nn::Network network(Config::Parse("[[layer]]\ntype = \"affine\"\ndim = 6\n[[layer]]\ntype = \"gradient-reversal\"\n"
                                    "[[layer]]\ntype = \"affine\"\n",
                                    "net"),
                      kIn, kOut, 7);
  try {
    GaussNewton gauss_newton(network);
    FAIL() << "expected UsageError";
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("gradient-reversal"), std::string::npos) << e.what();
  }
}

TEST(ConjugateGradient, ReachesAQuadraticsMinimumInAsManyStepsAsDimensions) {
  constexpr size_t kSize = 12;
  Rng rng(5);
  std::vector<double> root(kSize * kSize);
  for (double& a : root) a = rng.Normal();
  const auto product = [&](std::span<const double> v, std::span<double> bv) {
    std::vector<double> rv(kSize, 0.0);
    for (size_t i = 0; i < kSize; ++i) {
      for (size_t j = 0; j < kSize; ++j) rv[i] += root[i * kSize + j] * v[j];
    }
    for (size_t j = 0; j < kSize; ++j) {
      bv[j] = 0.1 * v[j];
      for (size_t i = 0; i < kSize; ++i) bv[j] += root[i * kSize + j] * rv[i];
    }
  };
  std::vector<double> minimum(kSize);
  for (double& m : minimum) m = rng.Normal();
  std::vector<double> g(kSize);
  product(minimum, g);
  for (double& v : g) v = -v;
  std::vector<double> diagonal(kSize, 0.1);
  for (size_t i = 0; i < kSize * kSize; ++i) diagonal[i % kSize] += root[i] * root[i];
  const std::vector<double> start(kSize, 0.0);
  for (const VectorFunction& preconditioner : {VectorFunction(), DiagonalPreconditioner(diagonal)}) {
    const auto result = ConjugateGradient(product, g, preconditioner, start, {2 * kSize, 0, 1.3});
    for (size_t i = 0; i < kSize; ++i) EXPECT_NEAR(result.iterates.back()[i], minimum[i], 1e-6);
    EXPECT_LT(result.iterates.size(), 2 * kSize);
  }
}

// The steps and products of one run make those of the next, on a matrix that is a little different, fewer.
TEST(ConjugateGradient, PairsOfTheLastRunPrecondition) {
  constexpr size_t kSize = 60;
  Rng rng(6);
  std::vector<double> diagonal(kSize), g(kSize);
  for (size_t i = 0; i < kSize; ++i) diagonal[i] = std::pow(10.0, 4.0 * static_cast<double>(i) / kSize);
  for (double& v : g) v = rng.Normal();
  LbfgsPreconditioner pairs(32);
  const std::vector<double> start(kSize, 0.0);
  const auto solve = [&](double change, bool with_pairs) {
    const auto product = [&](std::span<const double> v, std::span<double> bv) {
      for (size_t i = 0; i < kSize; ++i) bv[i] = diagonal[i] * (1 + change * static_cast<double>(i % 3)) * v[i];
    };
    const auto precondition = [&](std::span<const double> r, std::span<double> y) { pairs.Apply(r, y); };
    const auto offer = [&](std::span<const double> s, std::span<const double> bs) { pairs.Offer(s, bs); };
    ConjugateGradientOptions options{1000, 1e-6, 1.3, with_pairs};
    return ConjugateGradient(product, g, with_pairs ? VectorFunction(precondition) : VectorFunction(), start, options,
                             offer);
  };
  solve(0, false);
  pairs.Advance();
  EXPECT_GT(pairs.num_pairs(), 10u);
  const auto plain = solve(0.05, false);
  const auto preconditioned = solve(0.05, true);
  EXPECT_LT(preconditioned.iterations, 0.8 * plain.iterations);
  for (size_t i = 0; i < kSize; ++i) {
    const double exact = -g[i] / (diagonal[i] * (1 + 0.05 * static_cast<double>(i % 3)));
    EXPECT_NEAR(preconditioned.iterates.back()[i], exact, 1e-2 * std::abs(exact) + 1e-4);
  }
}

// H is the inverse on the space that the pairs span, once they are conjugate.
TEST(Lbfgs, InvertsWhatItsPairsHaveSeen) {
  const std::vector<double> diagonal = {1, 10, 100};
  LbfgsPreconditioner pairs(3);
  for (size_t k = 0; k < 3; ++k) {
    std::vector<double> s(3, 0.0), y(3, 0.0);
    s[k] = 1;
    y[k] = diagonal[k];
    pairs.Offer(s, y);
  }
  pairs.Advance();
  std::vector<double> out(3);
  pairs.Apply(std::vector<double>{1, 1, 1}, out);
  for (size_t k = 0; k < 3; ++k) EXPECT_NEAR(out[k], 1 / diagonal[k], 1e-12);
}

TEST(Lbfgs, KeepsNoMorePairsThanItMay) {
  for (const int most : {1, 2, 3, 5}) {
    LbfgsPreconditioner pairs(most);
    for (int k = 0; k < 50; ++k) {
      pairs.Offer(std::vector<double>{1.0 + k}, std::vector<double>{2.0 * (1 + k)});
    }
    pairs.Advance();
    EXPECT_GE(pairs.num_pairs(), 1u) << most;
    EXPECT_LE(pairs.num_pairs(), static_cast<size_t>(most));
    std::vector<double> out(1);
    pairs.Apply(std::vector<double>{3}, out);
    EXPECT_NEAR(out[0], 1.5, 1e-12) << most;
  }
}

TEST(SquaredGradients, AreThoseOfSingleFrames) {
  nn::Network network(Config::Parse("[[layer]]\ntype = \"affine\"\ndim = 4\n[[layer]]\ntype = \"sigmoid\"\n"
                                    "[[layer]]\ntype = \"affine\"\ndim = 3\n",
                                    "net"),
                      5, 0, 2);
  Rng rng(9);
  Matrix x(6, 5);
  for (int64_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(rng.Normal());
  const std::vector<int32_t> targets = {0, 2, 1, 1, 0, 2};
  nn::Workspace ws;
  const auto backward = [&](int64_t first, int64_t frames, nn::GradientSink& sink) {
    nn::LossTargets t;
    t.pdf_ids = std::span(targets).subspan(static_cast<size_t>(first), static_cast<size_t>(frames));
    t.total_weight = 6.0;
    const MatrixView logits = network.Forward({}, x.view().Rows(first, frames), ws);
    nn::SoftmaxCrossEntropy(logits, t, logits);
    network.Backward({}, logits, ws, sink);
  };
  std::vector<float> together(network.num_values(), 0.0f);
  SquaredGradientSink squares(together);
  backward(0, 6, squares);
  std::vector<double> expected(network.num_values(), 0.0);
  for (int64_t n = 0; n < 6; ++n) {
    std::vector<float> one(network.num_values(), 0.0f);
    nn::DenseGradientSink sink(one);
    backward(n, 1, sink);
    for (size_t i = 0; i < one.size(); ++i) expected[i] += static_cast<double>(one[i]) * static_cast<double>(one[i]);
  }
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(together[i], expected[i], 1e-6 * (1 + expected[i])) << i;
}

TEST(ConjugateGradient, FollowsTheGradientUnderHugeDamping) {
  const std::vector<double> g = {1, -2, 3};
  const auto product = [](std::span<const double> v, std::span<double> bv) {
    for (size_t i = 0; i < v.size(); ++i) bv[i] = (1e9 + static_cast<double>(i)) * v[i];
  };
  const auto result = ConjugateGradient(product, g, {}, std::vector<double>(3, 0.0), {50, 5e-4, 1.3});
  for (size_t i = 0; i < g.size(); ++i) EXPECT_NEAR(result.iterates.back()[i] * 1e9, -g[i], 1e-6);
}

}  // namespace
}  // namespace antiphon::optim
