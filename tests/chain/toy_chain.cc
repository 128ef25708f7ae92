#include "toy_chain.h"

namespace antiphon::chain::testing {

Matrix RandomOutputs(int64_t rows, int64_t cols, double scale, uint64_t seed) {
  Rng rng(seed);
  Matrix y(rows, cols);
  for (int64_t i = 0; i < y.size(); ++i) y.data()[i] = static_cast<float>(scale * (2 * rng.Uniform() - 1));
  return y;
}

}  // namespace antiphon::chain::testing
