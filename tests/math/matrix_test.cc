#include "math/matrix.h"

#include <gtest/gtest.h>

#include <new>

#include "sanitized.h"

namespace antiphon {
namespace {

Matrix Counting(int64_t rows, int64_t cols) {
  Matrix m(rows, cols);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) m(r, c) = static_cast<float>(10 * r + c);
  }
  return m;
}

TEST(Matrix, IsRowMajorAlignedAndZeroAtFirst) {
  Matrix m(3, 5);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(m.data()) % 64, 0u);
  EXPECT_EQ(m(2, 4), 0.0f);
  m(1, 2) = 7;
  EXPECT_EQ(m.data()[1 * 5 + 2], 7.0f);
}

TEST(Matrix, CopiesAndMoves) {
  Matrix a = Counting(2, 3);
  Matrix b = a;
  b(0, 0) = 99;
  EXPECT_EQ(a(0, 0), 0.0f);
  Matrix c = std::move(a);
  EXPECT_EQ(c(1, 2), 12.0f);
  EXPECT_TRUE(a.empty());  // NOLINT(bugprone-use-after-move): the moved-from state is a promise
  Matrix empty;
  c = empty;
  EXPECT_TRUE(c.empty());
}

TEST(Matrix, IsEmptyWhenThereIsNoMemory) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitizer ends the program instead";
  Matrix m = Counting(2, 3);
  EXPECT_THROW(m.Resize(int64_t{1} << 30, int64_t{1} << 28), std::bad_alloc);
  EXPECT_TRUE(m.empty());
  m.Resize(20, 30);
  m(19, 29) = 1.0f;
  EXPECT_EQ(m.rows(), 20);
}

TEST(Matrix, ShrinkingKeepsTheMemory) {
  Matrix m(10, 10);
  const float* data = m.data();
  m.Resize(3, 3);
  EXPECT_EQ(m.data(), data);
  m.Resize(10, 10);
  EXPECT_EQ(m.data(), data);
}

TEST(MatrixView, SlicesRowsAndColumns) {
  Matrix m = Counting(4, 5);
  MatrixView inner = m.view().Rows(1, 2).Cols(2, 3);
  EXPECT_EQ(inner.rows(), 2);
  EXPECT_EQ(inner.stride(), 5);
  EXPECT_EQ(inner(1, 2), 24.0f);
  EXPECT_FALSE(inner.contiguous());
  inner(0, 0) = -1;
  EXPECT_EQ(m(1, 2), -1.0f);
  ConstMatrixView read_only = inner;
  EXPECT_EQ(read_only(0, 0), -1.0f);
  const Matrix copy(read_only);
  EXPECT_EQ(copy(1, 0), 22.0f);
  EXPECT_EQ(copy.cols(), 3);
}

TEST(MatrixView, MayHaveNoRowsOrColumns) {
  Matrix none(0, 5);
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.view().cols(), 5);
  EXPECT_TRUE(Matrix(5, 0).view().Cols(0, 0).empty());
  EXPECT_EQ(Matrix(none).cols(), 5);
}

}  // namespace
}  // namespace antiphon
