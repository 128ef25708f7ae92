// Dense linear algebra in double precision: LAPACK behind row-major matrices.
//
// Shapes: row-major; square where said. Inputs are not changed.
// Threads: safe from several threads; LAPACK runs single-threaded.
// Errors: ShapeError for wrong shapes; InputError if the values make it impossible (not positive definite, singular,
// not finite), naming the matrix's size.
#pragma once

#include <vector>

#include "math/matrix.h"

namespace antiphon {

using ConstDoubleView = BasicMatrixView<const double>;

DoubleMatrix ToDouble(ConstMatrixView matrix);
Matrix ToFloat(ConstDoubleView matrix);
DoubleMatrix Transposed(ConstDoubleView matrix);
/// op(A) · op(B) as a new matrix.
DoubleMatrix Product(ConstDoubleView a, ConstDoubleView b);

/// a [m, n] = u [m, r] · diag(s) · vt [r, n], r = min(m, n), s falling.
struct SvdResult {
  DoubleMatrix u;
  std::vector<double> s;
  DoubleMatrix vt;
};
SvdResult Svd(ConstDoubleView a);

/// Symmetric a [n, n] = vectorsᵀ · diag(values) · vectors: values falling, one eigenvector per row. The sign of each
/// vector is fixed (its largest component is positive), so that results are reproducible. Only the lower triangle is
/// read.
struct SymEigResult {
  std::vector<double> values;
  DoubleMatrix vectors;
};
SymEigResult SymEig(ConstDoubleView a);

/// Lower triangular L with a = L·Lᵀ; the upper triangle is zero. InputError if a is not positive definite.
DoubleMatrix Cholesky(ConstDoubleView a);

/// Solution x [n, k] of a [n, n] · x = b [n, k]. InputError if a is singular.
DoubleMatrix Solve(ConstDoubleView a, ConstDoubleView b);
DoubleMatrix Inverse(ConstDoubleView a);
/// log |det a| and the determinant's sign (0 if singular, then the logarithm is −∞).
struct LogDetResult {
  double log_abs = 0;
  int sign = 1;
};
LogDetResult LogDet(ConstDoubleView a);

}  // namespace antiphon
