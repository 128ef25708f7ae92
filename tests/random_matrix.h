// Matrices of normal values for tests.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "math/matrix.h"

namespace antiphon::testing {

inline Matrix RandomMatrix(int64_t rows, int64_t cols, uint64_t seed, double scale = 1) {
  Rng rng(seed);
  Matrix m(rows, cols);
  for (int64_t i = 0; i < m.size(); ++i) m.data()[i] = static_cast<float>(scale * rng.Normal());
  return m;
}

}  // namespace antiphon::testing
