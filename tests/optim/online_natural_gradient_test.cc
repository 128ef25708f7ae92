#include "optim/online_natural_gradient.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <utility>

#include "base/random.h"
#include "kernels/elementwise.h"
#include "math/linalg.h"
#include "temporary_folder.h"

namespace antiphon::optim {
namespace {

Matrix Gaussian(int64_t rows, int64_t cols, uint64_t seed, const std::vector<double>& deviations = {}) {
  Rng rng(seed);
  Matrix m(rows, cols);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      const double scale = deviations.empty() ? 1.0 : deviations[static_cast<size_t>(c)];
      m(r, c) = static_cast<float>(scale * rng.Normal());
    }
  }
  return m;
}

void Update(OnlineNaturalGradient& ng) {
  OnlineNaturalGradient* const sides[] = {&ng};
  OnlineNaturalGradient::Update(sides);
}

double Norm(ConstMatrixView x) {
  double sum = 0;
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (const float v : x.Row(r)) sum += double{v} * v;
  }
  return std::sqrt(sum);
}

// (F + α tr(F)/D I)⁻¹ applied to the rows by explicit double arithmetic, up to scale.
Matrix ExplicitlyPreconditioned(const OnlineNaturalGradient& state, double alpha, ConstMatrixView x) {
  const int64_t dim = state.dim();
  DoubleMatrix fisher(dim, dim);
  double trace = 0;
  for (int64_t i = 0; i < dim; ++i) {
    for (int64_t j = 0; j < dim; ++j) {
      double value = i == j ? state.rho() : 0.0;
      for (int k = 0; k < state.rank(); ++k) {
        value += state.eigenvalues()[static_cast<size_t>(k)] * state.basis()(k, i) * state.basis()(k, j);
      }
      fisher(i, j) = value;
    }
    trace += fisher(i, i);
  }
  for (int64_t i = 0; i < dim; ++i) fisher(i, i) += alpha * trace / static_cast<double>(dim);
  return ToFloat(Transposed(Solve(fisher, Transposed(ToDouble(x)))));
}

TEST(OnlineNaturalGradient, KeepsTheNorm) {
  OnlineNaturalGradient ng(30, 8, 4.0, 2000, 4);
  for (uint64_t step = 0; step < 20; ++step) {
    Matrix x = Gaussian(64, 30, step);
    const double norm = Norm(x);
    const float gamma = ng.Precondition(x);
    EXPECT_NEAR(gamma * Norm(x), norm, 1e-4 * norm);
  }
}

TEST(OnlineNaturalGradient, MultipliesByTheSmoothedInverse) {
  OnlineNaturalGradient ng(12, 4, 4.0, 500, 1);
  std::vector<double> deviations = {9, 5, 3, 2, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5};
  for (uint64_t step = 0; step < 15; ++step) {
    Matrix x = Gaussian(100, 12, step, deviations);
    ng.Precondition(x);
    Update(ng);
  }
  Matrix x = Gaussian(40, 12, 99, deviations);
  Matrix expected = ExplicitlyPreconditioned(ng, 4.0, x);
  const double x_norm = Norm(x);
  const float gamma = ng.Precondition(x);
  const double scale = x_norm / Norm(expected);
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t c = 0; c < x.cols(); ++c) EXPECT_NEAR(gamma * x(r, c), scale * expected(r, c), 2e-3);
  }
}

TEST(OnlineNaturalGradient, LearnsAStationaryCovariance) {
  const std::vector<double> deviations = {10, 7, 5, 3, 1, 1, 1, 1, 1, 1, 1, 1};
  OnlineNaturalGradient ng(12, 4, 4.0, 5000, 1);
  double trace = 0;
  for (const double s : deviations) trace += s * s;
  for (uint64_t step = 0; step < 300; ++step) {
    Matrix x = Gaussian(200, 12, step, deviations);
    ng.Precondition(x);
    Update(ng);
  }
  double estimated = ng.rho() * 12;
  for (const double d : ng.eigenvalues()) estimated += d;
  EXPECT_NEAR(estimated, trace, 0.05 * trace);
  EXPECT_NEAR(ng.eigenvalues()[0] + ng.rho(), 100, 10);
  EXPECT_NEAR(ng.rho(), 1, 0.1);
  for (int i = 0; i < ng.rank(); ++i) EXPECT_NEAR(std::abs(ng.basis()(i, i)), 1, 0.02);
}

TEST(OnlineNaturalGradient, KeepsItsBasisOrthonormal) {
  OnlineNaturalGradient ng(50, 20, 4.0, 300, 1);
  for (uint64_t step = 0; step < 60; ++step) {
    std::vector<double> deviations(50, step % 7 == 0 ? 1e-4 : 1.0);
    deviations[step % 50] = 1e3;
    Matrix x = Gaussian(step % 3 == 0 ? 5 : 80, 50, step, deviations);
    ng.Precondition(x);
    Update(ng);
    for (int i = 0; i < ng.rank(); ++i) {
      for (int j = 0; j <= i; ++j) {
        double dot = 0;
        for (int64_t c = 0; c < 50; ++c) dot += double{ng.basis()(i, c)} * ng.basis()(j, c);
        ASSERT_NEAR(dot, i == j ? 1 : 0, 1e-3) << "step " << step << " rows " << i << " " << j;
      }
    }
  }
}

TEST(OnlineNaturalGradient, ApproachesPlainGradientWithSmoothing) {
  OnlineNaturalGradient ng(10, 3, 1e6, 2000, 4);
  Matrix x = Gaussian(50, 10, 3, {5, 4, 3, 2, 1, 1, 1, 1, 1, 1});
  const Matrix original = x;
  const float gamma = ng.Precondition(x);
  for (int64_t c = 0; c < 10; ++c) EXPECT_NEAR(gamma * x(7, c), original(7, c), 1e-3);
}

// The update of several sides at once, one alone, and one left to the next minibatch: the same bits.
// The same of a product as of its factors: γ·(G·X) from both sides.
TEST(OnlineNaturalGradient, MultipliesAProductAsItDoesItsFactors) {
  OnlineNaturalGradient of_inputs(14, 4, 4.0, 500, 1), of_outputs(9, 3, 4.0, 500, 1);
  OnlineNaturalGradient inputs(14, 4, 4.0, 500, 1), outputs(9, 3, 4.0, 500, 1);
  for (int step = 0; step < 12; ++step) {
    Rng rng(7, static_cast<uint64_t>(step));
    Matrix x(60, 14), g(60, 9), product(9, 14), expected(9, 14);
    for (int64_t r = 0; r < 60; ++r) {
      for (int64_t c = 0; c < 14; ++c) x(r, c) = static_cast<float>(rng.Normal() * static_cast<double>(1 + c));
      for (int64_t c = 0; c < 9; ++c) g(r, c) = static_cast<float>(rng.Normal() + 0.1 * static_cast<double>(x(r, c)));
    }
    Gemm(Transpose::kYes, g, Transpose::kNo, x, product);
    inputs.Observe(x);
    outputs.Observe(g);
    outputs.MultiplyRows(product);
    inputs.MultiplyColumns(product);
    const float gamma = of_inputs.Precondition(x) * of_outputs.Precondition(g);
    Gemm(Transpose::kYes, g, Transpose::kNo, x, expected);
    double size = 0;
    for (int64_t i = 0; i < expected.size(); ++i) size = std::max(size, std::abs(double{expected.data()[i]}));
    for (int64_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(product.data()[i], gamma * expected.data()[i], 2e-4 * size * static_cast<double>(gamma)) << step;
    }
    Update(inputs);
    Update(outputs);
    Update(of_inputs);
    Update(of_outputs);
  }
}

TEST(OnlineNaturalGradient, UpdatesTogetherAsAlone) {
  std::vector<std::unique_ptr<OnlineNaturalGradient>> together;
  std::vector<std::unique_ptr<OnlineNaturalGradient>> alone;
  std::vector<OnlineNaturalGradient*> sides;
  for (int i = 0; i < 5; ++i) {
    together.push_back(std::make_unique<OnlineNaturalGradient>(20 + 7 * i, 6, 4.0, 500, 2));
    alone.push_back(std::make_unique<OnlineNaturalGradient>(20 + 7 * i, 6, 4.0, 500, 2));
    sides.push_back(together.back().get());
  }
  for (uint64_t step = 0; step < 14; ++step) {
    for (size_t i = 0; i < sides.size(); ++i) {
      Matrix x = Gaussian(40, sides[i]->dim(), step * 10 + i);
      Matrix copy = x;
      EXPECT_EQ(together[i]->Precondition(x), alone[i]->Precondition(copy));
      for (int64_t v = 0; v < x.size(); ++v) ASSERT_EQ(x.data()[v], copy.data()[v]) << "step " << step;
    }
    OnlineNaturalGradient::Update(sides);
  }
}

TEST(OnlineNaturalGradient, AnUpdateThatIsDueOutlivesAFile) {
  const testing::TemporaryFolder folder;
  const auto path = folder / "pending.safetensors";
  OnlineNaturalGradient before(24, 6, 4.0, 500, 1);
  for (uint64_t step = 0; step < 3; ++step) {
    Matrix x = Gaussian(40, 24, step);
    before.Precondition(x);
  }
  SafetensorsWriter writer;
  before.SaveState(writer, "side");
  writer.Write(path);
  OnlineNaturalGradient after(24, 6, 4.0, 500, 1);
  after.LoadState(SafetensorsReader(path), "side");
  Update(before);
  Update(after);
  EXPECT_EQ(before.eigenvalues(), after.eigenvalues());
  EXPECT_EQ(before.rho(), after.rho());
  Matrix x = Gaussian(40, 24, 9);
  Matrix copy = x;
  before.Precondition(x);
  after.Precondition(copy);
  for (int64_t v = 0; v < x.size(); ++v) ASSERT_EQ(x.data()[v], copy.data()[v]);
}

// Rows in bf16 as well: the same up to bf16's rounding of what is subtracted.
TEST(OnlineNaturalGradient, RoundedRowsGiveNearlyTheSame) {
  OnlineNaturalGradient exact(60, 20, 4.0, 2000, 2);
  OnlineNaturalGradient rounded(60, 20, 4.0, 2000, 2);
  std::vector<double> deviations(60, 1.0);
  for (size_t c = 0; c < 10; ++c) deviations[c] = 6;
  for (uint64_t step = 0; step < 20; ++step) {
    Matrix x = Gaussian(100, 60, step, deviations);
    Matrix y = x;
    Bf16Matrix half;
    half.Resize(100, 60);
    ConvertToBf16(1.0f, x, half);
    EXPECT_NEAR(exact.Precondition(x), rounded.Precondition(y, std::as_const(half).view()), 0.01);
    for (int64_t v = 0; v < x.size(); ++v) ASSERT_NEAR(x.data()[v], y.data()[v], 0.1) << "step " << step;
  }
}

TEST(OnlineNaturalGradient, BearsZerosNonFiniteAndTinyShapes) {
  OnlineNaturalGradient ng(10, 3, 4.0, 2000, 4);
  Matrix zeros(20, 10);
  EXPECT_EQ(ng.Precondition(zeros), 1.0f);
  EXPECT_EQ(Norm(zeros), 0.0);
  Matrix bad = Gaussian(20, 10, 1);
  bad(3, 3) = NAN;
  EXPECT_EQ(ng.Precondition(bad), 1.0f);
  Matrix good = Gaussian(20, 10, 1);
  EXPECT_TRUE(std::isfinite(ng.Precondition(good)));
  EXPECT_TRUE(std::isfinite(Norm(good)));
  Matrix none(0, 10);
  EXPECT_EQ(ng.Precondition(none), 1.0f);

  OnlineNaturalGradient single(1, 20, 4.0, 2000, 4);
  Matrix column = Gaussian(20, 1, 1);
  const Matrix before = column;
  EXPECT_EQ(single.Precondition(column), 1.0f);
  EXPECT_EQ(column(5, 0), before(5, 0));
  EXPECT_THROW(ng.Precondition(column), ShapeError);
}

}  // namespace
}  // namespace antiphon::optim
