#include "math/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "base/compute_threads.h"
#include "base/error.h"
#include "base/random.h"

namespace antiphon {
namespace {

// A view with a stride and a start that are no multiple of a vector.
struct Ragged {
  Ragged(int64_t rows, int64_t cols, uint64_t seed) : values(static_cast<size_t>(rows * (cols + 3) + 1)) {
    Rng rng(seed);
    for (float& v : values) v = static_cast<float>(rng.Normal());
    view = MatrixView(values.data() + 1, rows, cols, cols + 3);
  }
  std::vector<float> values;
  MatrixView view;
};

double Expected(Transpose ta, ConstMatrixView a, Transpose tb, ConstMatrixView b, int64_t i, int64_t j) {
  const int64_t k = ta == Transpose::kYes ? a.rows() : a.cols();
  double sum = 0;
  for (int64_t l = 0; l < k; ++l) {
    const double x = static_cast<double>(ta == Transpose::kYes ? a(l, i) : a(i, l));
    sum += x * static_cast<double>(tb == Transpose::kYes ? b(j, l) : b(l, j));
  }
  return sum;
}

struct Shape {
  int64_t m, n, k;
};
constexpr Shape kShapes[] = {{1, 1, 1}, {1, 37, 19}, {5, 1, 7}, {33, 17, 65}, {64, 48, 32}, {3, 130, 1}};

template <class Body>
void ForAllCases(Body body) {
  for (const Shape& s : kShapes) {
    for (const Transpose ta : {Transpose::kNo, Transpose::kYes}) {
      for (const Transpose tb : {Transpose::kNo, Transpose::kYes}) {
        const Ragged a(ta == Transpose::kYes ? s.k : s.m, ta == Transpose::kYes ? s.m : s.k, 1);
        const Ragged b(tb == Transpose::kYes ? s.n : s.k, tb == Transpose::kYes ? s.k : s.n, 2);
        body(s, ta, a.view, tb, b.view);
      }
    }
  }
}

TEST(Gemm, AgreesWithThePlainSumForOddShapesAndStrides) {
  ForAllCases([](const Shape& s, Transpose ta, ConstMatrixView a, Transpose tb, ConstMatrixView b) {
    for (const float accumulate : {0.0f, 1.0f, 0.5f}) {
      Ragged c(s.m, s.n, 3);
      const Ragged before(s.m, s.n, 3);
      Gemm(ta, a, tb, b, c.view, {.accumulate = accumulate});
      for (int64_t i = 0; i < s.m; ++i) {
        for (int64_t j = 0; j < s.n; ++j) {
          const double expected = Expected(ta, a, tb, b, i, j) + static_cast<double>(accumulate * before.view(i, j));
          ASSERT_NEAR(c.view(i, j), expected, 1e-4) << s.m << " " << s.n << " " << s.k;
        }
      }
      EXPECT_EQ(c.values[0], before.values[0]);  // nothing outside is written
      EXPECT_EQ(c.values[static_cast<size_t>(s.n) + 1], before.values[static_cast<size_t>(s.n) + 1]);
    }
  });
}

TEST(Gemm, AppliesBiasAndActivation) {
  ForAllCases([](const Shape& s, Transpose ta, ConstMatrixView a, Transpose tb, ConstMatrixView b) {
    const Ragged bias(1, s.n, 4);
    for (const Activation f : {Activation::kNone, Activation::kRelu, Activation::kSigmoid, Activation::kTanh}) {
      Matrix c(s.m, s.n);
      Gemm(ta, a, tb, b, c, {.bias = bias.view.data(), .activation = f});
      for (int64_t i = 0; i < s.m; ++i) {
        for (int64_t j = 0; j < s.n; ++j) {
          double z = Expected(ta, a, tb, b, i, j) + static_cast<double>(bias.view(0, j));
          if (f == Activation::kRelu) z = std::max(z, 0.0);
          if (f == Activation::kSigmoid) z = 1 / (1 + std::exp(-z));
          if (f == Activation::kTanh) z = std::tanh(z);
          ASSERT_NEAR(c(i, j), z, 2e-4);
        }
      }
    }
  });
}

TEST(Gemm, TakesBf16Factors) {
  ForAllCases([](const Shape& s, Transpose ta, ConstMatrixView a, Transpose tb, ConstMatrixView b) {
    const auto halve = [](ConstMatrixView m) {
      Bf16Matrix h;
      h.Resize(m.rows(), m.cols());
      for (int64_t r = 0; r < m.rows(); ++r) {
        for (int64_t c = 0; c < m.cols(); ++c) h(r, c) = ToBf16(m(r, c));
      }
      return h;
    };
    const auto widen = [](const Bf16Matrix& h) {
      Matrix m(h.rows(), h.cols());
      for (int64_t r = 0; r < m.rows(); ++r) {
        for (int64_t c = 0; c < m.cols(); ++c) m(r, c) = ToFloat(h(r, c));
      }
      return m;
    };
    const Bf16Matrix a16 = halve(a);
    const Bf16Matrix b16 = halve(b);
    const Matrix aw = widen(a16);
    const Matrix bw = widen(b16);
    Matrix c(s.m, s.n);
    Gemm(ta, a16.view(), tb, b16.view(), c);
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) ASSERT_NEAR(c(i, j), Expected(ta, aw, tb, bw, i, j), 1e-4);
    }
  });
}

TEST(Gemm, ScaledTakesAnyFactors) {
  ForAllCases([](const Shape& s, Transpose ta, ConstMatrixView a, Transpose tb, ConstMatrixView b) {
    Ragged c(s.m, s.n, 3);
    const Ragged before(s.m, s.n, 3);
    GemmScaled(ta, a, tb, b, -0.3f, 0.7f, c.view);
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        ASSERT_NEAR(c.view(i, j), -0.3 * Expected(ta, a, tb, b, i, j) + 0.7 * static_cast<double>(before.view(i, j)),
                    1e-4);
      }
    }
  });
}

TEST(Gemm, HandlesEmptyDimensions) {
  Matrix a(0, 3);
  Matrix b(3, 4);
  Matrix c(0, 4);
  Gemm(Transpose::kNo, a, Transpose::kNo, b, c);
  Matrix no_inner_a(2, 0);
  Matrix no_inner_b(0, 2);
  Matrix d(2, 2);
  d(1, 1) = 5;
  const float bias[] = {1, 2};
  Gemm(Transpose::kNo, no_inner_a, Transpose::kNo, no_inner_b, d, {.accumulate = 1});
  EXPECT_EQ(d(1, 1), 5);
  Gemm(Transpose::kNo, no_inner_a, Transpose::kNo, no_inner_b, d, {.bias = bias});
  EXPECT_EQ(d(1, 1), 2);
}

TEST(Gemm, RefusesWrongShapesNamingBoth) {
  Matrix a(2, 3);
  Matrix b(4, 5);
  Matrix c(2, 5);
  try {
    Gemm(Transpose::kNo, a, Transpose::kNo, b, c);
    FAIL();
  } catch (const ShapeError& e) {
    EXPECT_NE(std::string(e.what()).find("[2, 3] and [4, 5]"), std::string::npos) << e.what();
  }
}

TEST(Gemm, KeepsNaN) {
  Matrix a(2, 2);
  Matrix b(2, 2);
  Matrix c(2, 2);
  a(0, 0) = std::numeric_limits<float>::quiet_NaN();
  Gemm(Transpose::kNo, a, Transpose::kNo, b, c);
  EXPECT_TRUE(std::isnan(c(0, 0)));
  EXPECT_EQ(c(1, 0), 0);
}

TEST(Gemm, RunsFromSeveralThreads) {
  const Ragged a(40, 30, 1);
  const Ragged b(30, 50, 2);
  std::vector<Matrix> results(4, Matrix(40, 50));
  std::vector<std::thread> threads;
  for (Matrix& r : results) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) Gemm(Transpose::kNo, a.view, Transpose::kNo, b.view, r);
    });
  }
  for (std::thread& t : threads) t.join();
  for (const Matrix& r : results) EXPECT_EQ(std::memcmp(r.data(), results[0].data(), 40 * 50 * sizeof(float)), 0);
}

TEST(Precision, IsParsedByName) {
  EXPECT_EQ(ParsePrecision("bf16"), Precision::kBf16);
  EXPECT_EQ(PrecisionName(ParsePrecision("fp32")), "fp32");
  EXPECT_EQ(ParsePrecision("auto"), FastBf16() ? Precision::kBf16 : Precision::kFp32);
  EXPECT_THROW(ParsePrecision("fp64"), UsageError);
}

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(ToFloat(ToBf16(1.0f)), 1.0f);
  EXPECT_EQ(ToFloat(ToBf16(1.0f + 1.0f / 256)), 1.0f);              // tie, down to even
  EXPECT_EQ(ToFloat(ToBf16(1.0f + 3.0f / 256)), 1.0f + 1.0f / 64);  // tie, up to even
  EXPECT_TRUE(std::isnan(ToFloat(ToBf16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_EQ(ToFloat(ToBf16(-std::numeric_limits<float>::infinity())), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isinf(ToFloat(ToBf16(std::numeric_limits<float>::max()))));
}

}  // namespace
}  // namespace antiphon
