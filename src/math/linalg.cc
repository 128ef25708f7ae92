#include "math/linalg.h"

#include <lapacke.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "math/blas_threads.h"
#include "math/gemm.h"

namespace antiphon {
namespace {

void ExpectSquare(ConstDoubleView a, const char* what) {
  if (a.rows() != a.cols()) Throw<ShapeError>("{} needs a square matrix, found [{}, {}]", what, a.rows(), a.cols());
}

void ExpectFinite(ConstDoubleView a, const char* what) {
  for (int64_t r = 0; r < a.rows(); ++r) {
    for (const double v : a.Row(r)) {
      if (!std::isfinite(v)) {
        Throw<InputError>("{} of a [{}, {}] matrix: row {} holds a value that is not finite", what, a.rows(), a.cols(),
                          r);
      }
    }
  }
}

void ExpectSuccess(lapack_int info, ConstDoubleView a, const char* what) {
  CHECK_GE(info, 0) << what;
  if (info > 0)
    Throw<InputError>("{} of a [{}, {}] matrix did not converge (LAPACK {})", what, a.rows(), a.cols(), info);
}

lapack_int Int(int64_t n) { return static_cast<lapack_int>(n); }

struct Lu {
  DoubleMatrix factors;
  std::vector<lapack_int> pivots;
  bool singular = false;
};

Lu Factorise(ConstDoubleView a, const char* what) {
  UseOneBlasThread();
  ExpectSquare(a, what);
  ExpectFinite(a, what);
  Lu lu{DoubleMatrix(a), std::vector<lapack_int>(static_cast<size_t>(a.rows())), false};
  if (a.rows() == 0) return lu;
  const lapack_int n = Int(a.rows());
  const lapack_int info = LAPACKE_dgetrf(LAPACK_ROW_MAJOR, n, n, lu.factors.data(), n, lu.pivots.data());
  CHECK_GE(info, 0);
  lu.singular = info > 0;
  return lu;
}

}  // namespace

DoubleMatrix ToDouble(ConstMatrixView matrix) {
  DoubleMatrix result;
  result.Resize(matrix.rows(), matrix.cols());
  for (int64_t r = 0; r < matrix.rows(); ++r) std::copy_n(matrix.Row(r).data(), matrix.cols(), result.Row(r).data());
  return result;
}

Matrix ToFloat(ConstDoubleView matrix) {
  Matrix result;
  result.Resize(matrix.rows(), matrix.cols());
  for (int64_t r = 0; r < matrix.rows(); ++r) {
    for (int64_t c = 0; c < matrix.cols(); ++c) result(r, c) = static_cast<float>(matrix(r, c));
  }
  return result;
}

DoubleMatrix Transposed(ConstDoubleView matrix) {
  DoubleMatrix result;
  result.Resize(matrix.cols(), matrix.rows());
  for (int64_t r = 0; r < matrix.rows(); ++r) {
    for (int64_t c = 0; c < matrix.cols(); ++c) result(c, r) = matrix(r, c);
  }
  return result;
}

DoubleMatrix Product(ConstDoubleView a, ConstDoubleView b) {
  DoubleMatrix c;
  c.Resize(a.rows(), b.cols());
  GemmScaled(Transpose::kNo, a, Transpose::kNo, b, 1.0, 0.0, c.view());
  return c;
}

SvdResult Svd(ConstDoubleView a) {
  UseOneBlasThread();
  ExpectFinite(a, "singular value decomposition");
  const int64_t r = std::min(a.rows(), a.cols());
  SvdResult result{DoubleMatrix(a.rows(), r), std::vector<double>(static_cast<size_t>(r)), DoubleMatrix(r, a.cols())};
  if (r == 0) return result;
  DoubleMatrix work(a);
  const lapack_int info =
      LAPACKE_dgesdd(LAPACK_ROW_MAJOR, 'S', Int(a.rows()), Int(a.cols()), work.data(), Int(a.cols()), result.s.data(),
                     result.u.data(), Int(r), result.vt.data(), Int(a.cols()));
  ExpectSuccess(info, a, "singular value decomposition");
  return result;
}

SymEigResult SymEig(ConstDoubleView a) {
  UseOneBlasThread();
  ExpectSquare(a, "eigenvalue decomposition");
  ExpectFinite(a, "eigenvalue decomposition");
  const int64_t n = a.rows();
  SymEigResult result{std::vector<double>(static_cast<size_t>(n)), DoubleMatrix(n, n)};
  if (n == 0) return result;
  DoubleMatrix columns(a);
  std::vector<double> rising(static_cast<size_t>(n));
  const lapack_int info = LAPACKE_dsyevd(LAPACK_ROW_MAJOR, 'V', 'L', Int(n), columns.data(), Int(n), rising.data());
  ExpectSuccess(info, a, "eigenvalue decomposition");
  for (int64_t i = 0; i < n; ++i) {
    const int64_t column = n - 1 - i;
    result.values[static_cast<size_t>(i)] = rising[static_cast<size_t>(column)];
    int64_t largest = 0;
    for (int64_t j = 1; j < n; ++j) {
      if (std::abs(columns(j, column)) > std::abs(columns(largest, column))) largest = j;
    }
    const double sign = columns(largest, column) < 0 ? -1.0 : 1.0;
    for (int64_t j = 0; j < n; ++j) result.vectors(i, j) = sign * columns(j, column);
  }
  return result;
}

DoubleMatrix Cholesky(ConstDoubleView a) {
  UseOneBlasThread();
  ExpectSquare(a, "Cholesky decomposition");
  ExpectFinite(a, "Cholesky decomposition");
  DoubleMatrix l(a);
  const int64_t n = a.rows();
  if (n == 0) return l;
  const lapack_int info = LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'L', Int(n), l.data(), Int(n));
  CHECK_GE(info, 0);
  if (info > 0) {
    Throw<InputError>("a [{}, {}] matrix is not positive definite (leading minor {})", n, n, info);
  }
  for (int64_t r = 0; r < n; ++r) std::fill(l.Row(r).begin() + r + 1, l.Row(r).end(), 0.0);
  return l;
}

DoubleMatrix Solve(ConstDoubleView a, ConstDoubleView b) {
  if (a.rows() != b.rows()) {
    Throw<ShapeError>("a linear system of [{}, {}] needs as many right-hand rows, found [{}, {}]", a.rows(), a.cols(),
                      b.rows(), b.cols());
  }
  ExpectFinite(b, "solution");
  const Lu lu = Factorise(a, "solution");
  if (lu.singular) Throw<InputError>("a [{}, {}] matrix is singular", a.rows(), a.cols());
  DoubleMatrix x(b);
  if (x.empty()) return x;
  const lapack_int info = LAPACKE_dgetrs(LAPACK_ROW_MAJOR, 'N', Int(a.rows()), Int(b.cols()), lu.factors.data(),
                                         Int(a.rows()), lu.pivots.data(), x.data(), Int(b.cols()));
  CHECK_EQ(info, 0);
  return x;
}

DoubleMatrix Inverse(ConstDoubleView a) {
  ExpectSquare(a, "inverse");
  DoubleMatrix identity(a.rows(), a.rows());
  for (int64_t i = 0; i < a.rows(); ++i) identity(i, i) = 1;
  return Solve(a, identity);
}

LogDetResult LogDet(ConstDoubleView a) {
  const Lu lu = Factorise(a, "determinant");
  LogDetResult result;
  for (int64_t i = 0; i < a.rows(); ++i) {
    const double d = lu.factors(i, i);
    if (lu.pivots[static_cast<size_t>(i)] != i + 1) result.sign = -result.sign;
    if (d == 0) return {-std::numeric_limits<double>::infinity(), 0};
    if (d < 0) result.sign = -result.sign;
    result.log_abs += std::log(std::abs(d));
  }
  return result;
}

}  // namespace antiphon
