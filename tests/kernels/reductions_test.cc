#include "kernels/reductions.h"

#include "base/compute_threads.h"
#include "base/error.h"
#include "kernels/update.h"
#include "variants.h"

namespace antiphon {
namespace {

using testing::ExpectClose;
using testing::ForVariants;
using testing::kNaN;
using testing::OddSizes;
using testing::Ragged;
using testing::Size;

TEST(ColumnSums, AgreesWithTheReference) {
  ForVariants<ColumnSumsOp>([](const std::string& name, auto function, auto reference) {
    for (const Size& size : OddSizes()) {
      const Ragged x(size, 1), weights({1, size.rows + 1}, 2, 1, true);
      if (size.rows > 1 && size.cols > 1) x.view(1, 1) = kNaN;
      for (const float* w : {static_cast<const float*>(nullptr), static_cast<const float*>(weights.view.data())}) {
        for (const float accumulate : {0.0f, 1.0f, 0.5f}) {
          Ragged sums({1, size.cols}, 3), expected({1, size.cols}, 3);
          if (accumulate == 0 && size.cols > 0) sums.view(0, 0) = kNaN;  // must not be read
          const uint64_t outside = sums.HashOutside();
          function(-0.7f, x.view, w, accumulate, sums.view);
          reference(-0.7f, x.view, w, accumulate, expected.view);
          ExpectClose(sums.view, expected.view, 2e-5, name);
          EXPECT_EQ(sums.HashOutside(), outside) << name;
        }
      }
    }
  });
}

TEST(SumSquares, AgreesWithTheReference) {
  ForVariants<SumSquaresOp>([](const std::string& name, auto function, auto reference) {
    for (const Size& size : OddSizes()) {
      for (const bool packed : {false, true}) {
        const Ragged x(size, 1, 1, packed);
        EXPECT_NEAR(function(x.view), reference(x.view), 1e-5 * (1 + reference(x.view))) << name;
        if (x.view.empty()) continue;
        x.view(size.rows - 1, size.cols - 1) = kNaN;
        EXPECT_TRUE(std::isnan(function(x.view))) << name;
      }
    }
  });
}

TEST(RowSquares, AgreesWithTheReferenceAndWithARowAlone) {
  ForVariants<RowSquaresOp>([](const std::string& name, auto function, auto reference) {
    for (const Size& size : OddSizes()) {
      for (const bool packed : {false, true}) {
        const Ragged x(size, 1, 1, packed);
        std::vector<double> sums(static_cast<size_t>(size.rows)), expected(sums.size());
        function(x.view, sums.data());
        reference(x.view, expected.data());
        for (size_t r = 0; r < sums.size(); ++r) {
          EXPECT_NEAR(sums[r], expected[r], 1e-5 * (1 + expected[r])) << name;
          double alone = 0;
          function(ConstMatrixView(x.view).Rows(static_cast<int64_t>(r), 1), &alone);
          EXPECT_EQ(alone, sums[r]) << name;
        }
      }
    }
  });
}

TEST(Reductions, AreTheSameForAnyNumberOfThreads) {
  const Ragged x({300, 1031}, 1);
  Matrix sums[2] = {Matrix(1, 1031), Matrix(1, 1031)};
  double squares[2];
  const int before = ComputeThreads();
  for (const int i : {0, 1}) {
    SetComputeThreads(1 + 2 * i);
    ColumnSums(1, x.view, nullptr, 0, sums[i]);
    squares[i] = SumSquares(x.view);
  }
  SetComputeThreads(before);
  EXPECT_EQ(squares[0], squares[1]);
  for (int64_t c = 0; c < 1031; ++c) EXPECT_EQ(sums[0](0, c), sums[1](0, c));
}

TEST(MomentumStep, AgreesWithTheReference) {
  ForVariants<MomentumStepOp>([](const std::string& name, auto function, auto reference) {
    for (const int64_t n : {0, 1, 17, 70001}) {
      for (const bool nesterov : {false, true}) {
        const MomentumRates rates{0.1f, 0.9f, 0.01f, 0.99f, nesterov};
        const Ragged g({1, n}, 1), v({1, n}, 2), w({1, n}, 3), v2({1, n}, 2), w2({1, n}, 3);
        function(rates, g.view.data(), v.view.data(), w.view.data(), n);
        reference(rates, g.view.data(), v2.view.data(), w2.view.data(), n);
        ExpectClose(v.view, v2.view, 1e-6, name);
        ExpectClose(w.view, w2.view, 1e-6, name);
        EXPECT_EQ(w.HashOutside(), w2.HashOutside());
      }
    }
  });
}

TEST(AdamStep, AgreesWithTheReference) {
  ForVariants<AdamStepOp>([](const std::string& name, auto function, auto reference) {
    for (const int64_t n : {0, 1, 17, 70001}) {
      AdamRates rates;
      rates.rate = 0.1f;
      rates.correction1 = 1.5f;
      rates.correction2 = 3.0f;
      rates.shrink = 0.99f;
      const Ragged g({1, n}, 1), m({1, n}, 2), w({1, n}, 3), m2({1, n}, 2), w2({1, n}, 3);
      std::vector<float> s(static_cast<size_t>(n), 0.5f), s2(s);
      function(rates, g.view.data(), m.view.data(), s.data(), w.view.data(), n);
      reference(rates, g.view.data(), m2.view.data(), s2.data(), w2.view.data(), n);
      ExpectClose(m.view, m2.view, 1e-6, name);
      ExpectClose(w.view, w2.view, 1e-5, name);
      for (size_t i = 0; i < s.size(); ++i) ExpectClose(s[i], s2[i], 1e-6, name);
    }
  });
}

}  // namespace
}  // namespace antiphon
