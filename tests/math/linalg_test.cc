#include "math/linalg.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "math/gemm.h"

namespace antiphon {
namespace {

DoubleMatrix RandomMatrix(int64_t rows, int64_t cols, uint64_t seed) {
  Rng rng(seed);
  DoubleMatrix m(rows, cols);
  for (int64_t r = 0; r < rows; ++r) {
    for (double& v : m.Row(r)) v = rng.Normal();
  }
  return m;
}

DoubleMatrix RandomCovariance(int64_t n, uint64_t seed) {
  const DoubleMatrix a = RandomMatrix(n, n + 3, seed);
  return Product(a, Transposed(a));
}

void ExpectNear(const DoubleMatrix& a, const DoubleMatrix& b, double tolerance) {
  ASSERT_EQ(a.rows(), b.rows());
  ASSERT_EQ(a.cols(), b.cols());
  for (int64_t r = 0; r < a.rows(); ++r) {
    for (int64_t c = 0; c < a.cols(); ++c) ASSERT_NEAR(a(r, c), b(r, c), tolerance) << r << " " << c;
  }
}

TEST(Svd, RebuildsTheMatrixFromFallingValues) {
  for (const auto& [rows, cols] : {std::pair{7, 4}, {4, 7}, {1, 5}, {6, 1}}) {
    const DoubleMatrix a = RandomMatrix(rows, cols, 1);
    const SvdResult svd = Svd(a);
    DoubleMatrix us = svd.u;
    for (int64_t r = 0; r < us.rows(); ++r) {
      for (int64_t c = 0; c < us.cols(); ++c) us(r, c) *= svd.s[static_cast<size_t>(c)];
    }
    ExpectNear(Product(us, svd.vt), a, 1e-12);
    for (size_t i = 1; i < svd.s.size(); ++i) EXPECT_LE(svd.s[i], svd.s[i - 1]);
  }
}

TEST(SymEig, GivesEigenvectorsInRows) {
  const DoubleMatrix a = RandomCovariance(6, 2);
  const SymEigResult e = SymEig(a);
  const DoubleMatrix av = Product(a, Transposed(e.vectors));
  for (int64_t i = 0; i < 6; ++i) {
    for (int64_t j = 0; j < 6; ++j) EXPECT_NEAR(av(j, i), e.values[static_cast<size_t>(i)] * e.vectors(i, j), 1e-10);
  }
  EXPECT_GE(e.values[0], e.values[5]);
}

TEST(Cholesky, RebuildsTheMatrix) {
  const DoubleMatrix a = RandomCovariance(5, 3);
  const DoubleMatrix l = Cholesky(a);
  ExpectNear(Product(l, Transposed(l)), a, 1e-11);
  EXPECT_EQ(l(0, 4), 0);
}

TEST(Cholesky, RefusesWhatIsNotPositiveDefinite) {
  DoubleMatrix a = RandomCovariance(5, 3);
  a(2, 2) = -1;
  EXPECT_THROW(Cholesky(a), InputError);
}

TEST(Inverse, TimesTheMatrixIsTheIdentity) {
  const DoubleMatrix a = RandomMatrix(5, 5, 4);
  DoubleMatrix identity(5, 5);
  for (int i = 0; i < 5; ++i) identity(i, i) = 1;
  ExpectNear(Product(a, Inverse(a)), identity, 1e-10);
}

TEST(Solve, RefusesSingularAndNonFiniteMatrices) {
  DoubleMatrix a(2, 2);
  EXPECT_THROW(Inverse(a), InputError);
  a(0, 0) = NAN;
  EXPECT_THROW(Inverse(a), InputError);
  EXPECT_THROW(Solve(DoubleMatrix(2, 3), DoubleMatrix(2, 1)), ShapeError);
  EXPECT_THROW(Solve(DoubleMatrix(2, 2), DoubleMatrix(3, 1)), ShapeError);
}

TEST(LogDet, AgreesWithTheEigenvaluesAndKnowsTheSign) {
  DoubleMatrix a = RandomCovariance(4, 5);
  double expected = 0;
  for (const double v : SymEig(a).values) expected += std::log(v);
  EXPECT_NEAR(LogDet(a).log_abs, expected, 1e-10);
  EXPECT_EQ(LogDet(a).sign, 1);
  for (double& v : a.Row(1)) v = -v;
  EXPECT_EQ(LogDet(a).sign, -1);
  EXPECT_EQ(LogDet(DoubleMatrix(2, 2)).sign, 0);
}

TEST(Linalg, AcceptsEmptyMatrices) {
  const DoubleMatrix none(0, 0);
  EXPECT_TRUE(Svd(none).s.empty());
  EXPECT_TRUE(SymEig(none).values.empty());
  EXPECT_EQ(Cholesky(none).rows(), 0);
  EXPECT_EQ(Inverse(none).rows(), 0);
  EXPECT_EQ(LogDet(none).log_abs, 0);
}

TEST(Linalg, ConvertsBetweenPrecisions) {
  const DoubleMatrix a = RandomMatrix(3, 4, 6);
  ExpectNear(ToDouble(ToFloat(a)), a, 1e-6);
}

}  // namespace
}  // namespace antiphon
