// Checks that a kernel's matrices have the same shape.
#pragma once

#include "base/error.h"
#include "math/matrix.h"

namespace antiphon {

template <class A, class B>
void ExpectSameShape(const char* what, const BasicMatrixView<A>& a, const BasicMatrixView<B>& b) {
  if (a.rows() != b.rows() || a.cols() != b.cols()) {
    Throw<ShapeError>("{} needs matrices of the same shape, found [{}, {}] and [{}, {}]", what, a.rows(), a.cols(),
                      b.rows(), b.cols());
  }
}

}  // namespace antiphon
