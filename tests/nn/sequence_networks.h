// Networks of layers that look at several frames or carry a state, and what their tests need to look at them.
#pragma once

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "nn/network.h"

namespace antiphon::nn {

/// Of `layers`, tables with commas between them.
inline Network BuildSequence(const std::string& layers, int in_dim, uint64_t seed = 1) {
  return {Config::Parse("layer = [" + layers + "]", "test"), in_dim, 0, seed};
}

inline Parameter& Find(Network& net, const std::string& name) {
  for (Parameter* p : net.parameters()) {
    if (p->name == name) return *p;
  }
  throw std::runtime_error("no " + name);
}

inline void ExpectNear(ConstMatrixView a, ConstMatrixView b, double tolerance, const std::string& what) {
  ASSERT_EQ(a.rows(), b.rows()) << what;
  ASSERT_EQ(a.cols(), b.cols()) << what;
  for (int64_t r = 0; r < a.rows(); ++r) {
    for (int64_t c = 0; c < a.cols(); ++c) EXPECT_NEAR(a(r, c), b(r, c), tolerance) << what << " " << r << " " << c;
  }
}

}  // namespace antiphon::nn
