#include "optim/rbm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"

namespace antiphon::optim {
namespace {

constexpr int kVisible = 4;
constexpr int kHidden = 3;

// Σ over all 2^7 configurations: the exact gradient of the mean log-likelihood with respect to the weights.
Matrix EnumeratedGradient(const Rbm& rbm, ConstMatrixView data) {
  auto energy = [&](int v, int h) {
    double e = 0;
    for (int i = 0; i < kHidden; ++i) {
      if (((h >> i) & 1) == 0) continue;
      e -= rbm.hidden_bias()[static_cast<size_t>(i)];
      for (int j = 0; j < kVisible; ++j) {
        if (((v >> j) & 1) != 0) e -= rbm.weight()(i, j);
      }
    }
    for (int j = 0; j < kVisible; ++j) {
      if (((v >> j) & 1) != 0) e -= rbm.visible_bias()[static_cast<size_t>(j)];
    }
    return e;
  };
  double z = 0;
  DoubleMatrix model(kHidden, kVisible);
  for (int v = 0; v < 1 << kVisible; ++v) {
    for (int h = 0; h < 1 << kHidden; ++h) {
      const double p = std::exp(-energy(v, h));
      z += p;
      for (int i = 0; i < kHidden; ++i) {
        for (int j = 0; j < kVisible; ++j) model(i, j) += p * ((h >> i) & 1) * ((v >> j) & 1);
      }
    }
  }
  Matrix gradient(kHidden, kVisible);
  for (int i = 0; i < kHidden; ++i) {
    for (int j = 0; j < kVisible; ++j) {
      double positive = 0;
      for (int64_t n = 0; n < data.rows(); ++n) {
        double a = rbm.hidden_bias()[static_cast<size_t>(i)];
        for (int k = 0; k < kVisible; ++k) a += rbm.weight()(i, k) * data(n, k);
        positive += data(n, j) / (1 + std::exp(-a)) / static_cast<double>(data.rows());
      }
      gradient(i, j) = static_cast<float>(positive - model(i, j) / z);
    }
  }
  return gradient;
}

TEST(Rbm, LongChainsFollowTheLikelihoodGradient) {
  RbmOptions options;
  options.gibbs_steps = 60;
  Rbm rbm(kVisible, kHidden, VisibleUnits::kBernoulli, options, 3);
  Rng rng(5);
  for (int64_t i = 0; i < rbm.weight().size(); ++i) rbm.weight().data()[i] = static_cast<float>(rng.Normal());
  for (float& b : rbm.hidden_bias()) b = static_cast<float>(0.3 * rng.Normal());
  for (float& a : rbm.visible_bias()) a = static_cast<float>(0.3 * rng.Normal());
  Matrix data(20000, kVisible);
  for (int64_t n = 0; n < data.rows(); ++n) {
    const bool on = rng.Uniform() < 0.5;
    for (int j = 0; j < kVisible; ++j) data(n, j) = rng.Uniform() < (j % 2 == 0 ? 0.9 : 0.2) && on ? 1.0f : 0.0f;
  }
  const Matrix exact = EnumeratedGradient(rbm, data);
  const Matrix sampled = rbm.Gradient(data);
  double dot = 0;
  double a = 0;
  double b = 0;
  for (int64_t i = 0; i < exact.size(); ++i) {
    dot += double{exact.data()[i]} * sampled.data()[i];
    a += double{exact.data()[i]} * exact.data()[i];
    b += double{sampled.data()[i]} * sampled.data()[i];
  }
  EXPECT_GT(dot / std::sqrt(a * b), 0.995);
  EXPECT_NEAR(std::sqrt(b / a), 1, 0.05);
}

// Frames near one of two prototypes, normalised to mean 0 and variance 1.
Matrix TwoPrototypes(int64_t frames, double scale) {
  Rng rng(11);
  Matrix v(frames, 10);
  for (int64_t n = 0; n < frames; ++n) {
    const double sign = rng.Uniform() < 0.5 ? -1 : 1;
    for (int64_t c = 0; c < 10; ++c) {
      const double prototype = c % 2 == 0 ? sign : -sign;
      v(n, c) = static_cast<float>(scale * (0.95 * prototype + 0.3 * rng.Normal()));
    }
  }
  return v;
}

double ErrorAfter(Rbm& rbm, const Matrix& v, int steps) {
  double error = 0;
  for (int i = 0; i < steps; ++i) error = rbm.Train(v).reconstruction_error;
  return error;
}

TEST(Rbm, LearnsToReconstruct) {
  RbmOptions options;
  options.gaussian_learning_rate = 0.05;
  Rbm rbm(10, 16, VisibleUnits::kGaussian, options, 1);
  const Matrix v = TwoPrototypes(200, 1.0);
  const double first = ErrorAfter(rbm, v, 1);
  const double last = ErrorAfter(rbm, v, 600);
  EXPECT_LT(last, 0.5 * first);
}

TEST(Rbm, ShrinksWhatExplodes) {
  RbmOptions options;
  options.gaussian_learning_rate = 1.0;
  Rbm rbm(10, 64, VisibleUnits::kGaussian, options, 1);
  const Matrix v = TwoPrototypes(100, 10.0);
  bool fired = false;
  for (int i = 0; i < 100; ++i) fired = rbm.Train(v).guard_fired || fired;
  EXPECT_TRUE(fired);
  for (int64_t i = 0; i < rbm.weight().size(); ++i) ASSERT_TRUE(std::isfinite(rbm.weight().data()[i]));
}

TEST(Rbm, IsTheSameEveryTimeAndMindsShapes) {
  const Matrix v = TwoPrototypes(50, 1.0);
  Rbm a(10, 8, VisibleUnits::kGaussian, {}, 9);
  Rbm b(10, 8, VisibleUnits::kGaussian, {}, 9);
  ErrorAfter(a, v, 20);
  ErrorAfter(b, v, 20);
  EXPECT_TRUE(std::equal(a.weight().data(), a.weight().data() + a.weight().size(), b.weight().data()));
  EXPECT_THROW(a.Train(Matrix(3, 9)), ShapeError);
  EXPECT_EQ(a.Train(Matrix(0, 10)).reconstruction_error, 0);
}

}  // namespace
}  // namespace antiphon::optim
