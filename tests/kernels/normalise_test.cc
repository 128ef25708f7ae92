#include "kernels/normalise.h"

#include "base/compute_threads.h"
#include "variants.h"

namespace antiphon {
namespace {

using testing::ExpectClose;
using testing::ForVariants;
using testing::OddSizes;
using testing::Ragged;
using testing::Size;

// Every third row is padding; nothing: none is.
std::vector<uint8_t> Padding(const Size& size, bool padded) {
  std::vector<uint8_t> counts;
  for (int64_t r = 0; padded && r < size.rows; ++r) counts.push_back(r % 3 == 2 ? 0 : 1);
  return counts;
}
const uint8_t* Pointer(const std::vector<uint8_t>& counts) { return counts.empty() ? nullptr : counts.data(); }

TEST(ColumnMoments, AgreeWithTheReferenceFarFromZero) {
  ForVariants<ColumnMomentsOp>([](const std::string& name, auto function, auto reference) {
    for (const Size& size : OddSizes()) {
      for (const bool padded : {false, true}) {
        const Ragged x(size, 1);
        for (int64_t r = 0; r < size.rows; ++r) {
          for (float& v : x.view.Row(r)) v += 100;
        }
        const auto counts = Padding(size, padded);
        const auto n = static_cast<size_t>(size.cols);
        std::vector<double> mean(n), squares(n), mean2(n), squares2(n);
        function(x.view, Pointer(counts), mean.data(), squares.data());
        reference(x.view, Pointer(counts), mean2.data(), squares2.data());
        for (size_t c = 0; c < n; ++c) {
          EXPECT_NEAR(mean[c], mean2[c], 1e-4) << name;
          EXPECT_NEAR(squares[c], squares2[c], 1e-3 * (1 + squares2[c])) << name;
        }
      }
    }
  });
}

TEST(CentredSums, AgreeWithTheReference) {
  ForVariants<CentredSumsOp>([](const std::string& name, auto function, auto reference) {
    for (const Size& size : OddSizes()) {
      for (const bool padded : {false, true}) {
        const Ragged g(size, 1), x(size, 2), mean({1, size.cols}, 3);
        const auto counts = Padding(size, padded);
        Ragged sums({2, size.cols}, 4), expected({2, size.cols}, 4);
        function(g.view, x.view, Pointer(counts), mean.view.data(), sums.view);
        reference(g.view, x.view, Pointer(counts), mean.view.data(), expected.view);
        ExpectClose(sums.view, expected.view, 1e-4, name);
        EXPECT_EQ(sums.HashOutside(), expected.HashOutside()) << name;
      }
    }
  });
}

TEST(Normalise, AgreesWithTheReferenceInPlaceToo) {
  ForVariants<NormaliseOp>([](const std::string& name, auto function, auto reference) {
    for (const Size& size : OddSizes()) {
      const Ragged mean({1, size.cols}, 2), scale({1, size.cols}, 3), offset({1, size.cols}, 4);
      for (const float* o : {static_cast<const float*>(nullptr), static_cast<const float*>(offset.view.data())}) {
        const Ragged x(size, 1), y(size, 5), expected(size, 5);
        function(x.view, mean.view.data(), scale.view.data(), o, y.view);
        reference(x.view, mean.view.data(), scale.view.data(), o, expected.view);
        ExpectClose(y.view, expected.view, 1e-5, name);
        EXPECT_EQ(y.HashOutside(), expected.HashOutside()) << name;
        function(x.view, mean.view.data(), scale.view.data(), o, x.view);
        ExpectClose(x.view, expected.view, 1e-5, name);
      }
    }
  });
}

TEST(NormaliseDerivative, AgreesWithTheReferenceInPlaceToo) {
  ForVariants<NormaliseDerivativeOp>([](const std::string& name, auto function, auto reference) {
    for (const Size& size : OddSizes()) {
      for (const bool padded : {false, true}) {
        const Ragged g(size, 1), x(size, 2), dx(size, 3), expected(size, 3), columns({4, size.cols}, 4);
        const float* c[4];
        for (int i = 0; i < 4; ++i) c[i] = columns.view.Row(i).data();
        const auto counts = Padding(size, padded);
        function(g.view, x.view, Pointer(counts), c[0], c[1], c[2], c[3], dx.view);
        reference(g.view, x.view, Pointer(counts), c[0], c[1], c[2], c[3], expected.view);
        ExpectClose(dx.view, expected.view, 1e-5, name);
        EXPECT_EQ(dx.HashOutside(), expected.HashOutside()) << name;
        function(g.view, x.view, Pointer(counts), c[0], c[1], c[2], c[3], g.view);
        ExpectClose(g.view, expected.view, 1e-5, name);
      }
    }
  });
}

TEST(Normalise, SumsAreTheSameForAnyNumberOfThreads) {
  const Ragged g({1000, 131}, 1), x({1000, 131}, 2), mean({1, 131}, 3);
  std::vector<double> moments[2];
  Matrix sums[2] = {Matrix(2, 131), Matrix(2, 131)};
  for (const int i : {0, 1}) {
    const ComputeThreadsScope threads(i == 0 ? 1 : 3);
    moments[i].resize(262);
    CpuKernel<ColumnMomentsOp>()(x.view, nullptr, moments[i].data(), moments[i].data() + 131);
    CpuKernel<CentredSumsOp>()(g.view, x.view, nullptr, mean.view.data(), sums[i]);
  }
  EXPECT_EQ(moments[0], moments[1]);
  for (int64_t i = 0; i < sums[0].size(); ++i) EXPECT_EQ(sums[0].data()[i], sums[1].data()[i]);
}

}  // namespace
}  // namespace antiphon
