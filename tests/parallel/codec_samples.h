// What the tests of codecs send, and the codecs that keep what they did not send.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "math/matrix.h"

namespace antiphon::parallel {

inline Matrix NormalMatrix(int64_t rows, int64_t cols, uint64_t seed, double scale = 1) {
  Matrix m(rows, cols);
  Rng rng(5, seed);
  for (int64_t i = 0; i < m.size(); ++i) m.data()[i] = static_cast<float>(scale * rng.Normal());
  return m;
}

inline const std::vector<std::string>& WithFeedback() {
  static const std::vector<std::string> tomls = {"type = \"one-bit\"\n", "type = \"threshold\"\nthreshold = 0.5\n",
                                                 "type = \"top-k\"\ndensity = 0.1\n", "type = \"int8\"\n",
                                                 "type = \"bf16\"\nfeedback = true\n"};
  return tomls;
}

}  // namespace antiphon::parallel
