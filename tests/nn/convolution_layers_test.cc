// Convolution and pooling over frequency and time: what they compute.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "nn/network.h"
#include "nn/sequence_networks.h"
#include "random_matrix.h"

namespace antiphon::nn {
namespace {

using testing::RandomMatrix;

TEST(Convolution, OfOnePositionIsAnAffineLayerPerPosition) {
  Network conv = BuildSequence("{type='convolution', channels=3, filters=4, window=1}", 15);
  Network affine = BuildSequence("{type='affine', dim=4}", 3);
  for (size_t i = 0; i < 2; ++i) {
    std::copy_n(conv.parameters()[i]->value.data(), conv.parameters()[i]->value.size(),
                affine.parameters()[i]->value.data());
  }
  affine.MarkChanged();
  const Matrix x = RandomMatrix(7, 15, 1);
  Workspace a, b;
  const MatrixView y = conv.Forward({}, x, a);
  const MatrixView z = affine.Forward({}, ConstMatrixView(x.data(), 35, 3), b);
  ExpectNear(MatrixView(y.data(), 35, 4), z, 1e-6, "positions");
}

TEST(Convolution, InputMovedByAPositionMovesTheOutput) {
  const Network net = BuildSequence("{type='convolution', channels=2, filters=3, window=3, pad=false}", 20);
  const Matrix x = RandomMatrix(4, 20, 1);
  Matrix moved(4, 20);
  for (int64_t r = 0; r < 4; ++r) std::copy_n(x.Row(r).data(), 18, moved.Row(r).data() + 2);
  Workspace a, b;
  const MatrixView y = net.Forward({}, x, a), z = net.Forward({}, moved, b);
  ExpectNear(z.Cols(3, 21), y.Cols(0, 21), 1e-6, "moved");
}

// The definition, sum by sum, with values of its own.
TEST(Convolution, IsWhatItsDefinitionSays) {
  Network net = BuildSequence("{type='convolution', channels=2, filters=3, window=4, stride=2, offsets=[-1, 2]}", 10);
  const Matrix x = RandomMatrix(6, 10, 1);
  Workspace ws;
  const MatrixView y = net.Forward({}, x, ws);
  ASSERT_EQ(y.rows(), 3);
  ASSERT_EQ(y.cols(), 9);
  const ConstMatrixView w = net.parameters()[0]->value, b = net.parameters()[1]->value;
  for (int t = 0; t < 3; ++t) {
    for (int h = 0; h < 3; ++h) {
      for (int f = 0; f < 3; ++f) {
        double sum = static_cast<double>(b(0, f));
        for (int k = 0; k < 2; ++k) {
          for (int j = 0; j < 4; ++j) {
            const int at = 2 * h - 1 + j;
            if (at < 0 || at >= 5) continue;
            for (int c = 0; c < 2; ++c) {
              sum += static_cast<double>(w(f, (k * 4 + j) * 2 + c)) *
                     static_cast<double>(x(t + 1 + (k == 0 ? -1 : 2), at * 2 + c));
            }
          }
        }
        EXPECT_NEAR(y(t, h * 3 + f), sum, 1e-5);
      }
    }
  }
}

TEST(Pooling, TheLargestOfAWindowGetsTheDerivative) {
  Network net = BuildSequence("{type='pooling', channels=2, window=2}", 10);  // five positions: the last stands alone
  Matrix x(1, 10);
  const float values[] = {1, -1, 3, -2, 0, 5, 0, 4, 7, -8};
  std::copy_n(values, 10, x.data());
  Workspace ws;
  const MatrixView y = net.Forward({}, x, ws);
  const float largest[] = {3, -1, 0, 5, 7, -8};
  for (int64_t c = 0; c < 6; ++c) EXPECT_EQ(y(0, c), largest[c]);
  NullGradientSink sink;
  Matrix dy(1, 6);
  for (int64_t c = 0; c < 6; ++c) dy(0, c) = static_cast<float>(c + 1);
  const MatrixView dx = net.Backward({}, dy, ws, sink, true);
  const float expected[] = {0, 2, 1, 0, 3, 4, 0, 0, 5, 6};  // of equal values, the first
  for (int64_t c = 0; c < 10; ++c) EXPECT_EQ(dx(0, c), expected[c]) << c;
}

TEST(Pooling, WindowsWithGapsBetweenThemStayInside) {
  // Positions: how many, window, stride; what each output begins with.
  for (const auto& [positions, window, stride, firsts] :
       std::vector<std::tuple<int, int, int, std::vector<int>>>{{10, 3, 5, {0, 5}},
                                                                {11, 3, 5, {0, 5, 10}},
                                                                {5, 1, 2, {0, 2, 4}},
                                                                {4, 1, 4, {0}},
                                                                {2, 7, 9, {0}},
                                                                {7, 3, 2, {0, 2, 4}}}) {
    const Network net = BuildSequence(
        fmt::format("{{type='pooling', channels=1, window={}, stride={}, function='average'}}", window, stride),
        positions);
    ASSERT_EQ(net.out_dim(), std::ssize(firsts)) << positions << " " << window << " " << stride;
    Matrix x(1, positions);
    for (int i = 0; i < positions; ++i) x(0, i) = static_cast<float>(i);
    Workspace ws;
    const MatrixView y = net.Forward({}, x, ws);
    for (size_t k = 0; k < firsts.size(); ++k) {
      const int last = std::min(firsts[k] + window, positions) - 1;
      EXPECT_EQ(y(0, static_cast<int64_t>(k)), static_cast<float>(firsts[k] + last) / 2);
    }
  }
}

}  // namespace
}  // namespace antiphon::nn
