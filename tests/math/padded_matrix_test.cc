#include "math/padded_matrix.h"

#include <gtest/gtest.h>

namespace antiphon {
namespace {

TEST(PaddedMatrix, RowsOfSomeLengthStartAnOddNumberOfLinesApart) {
  for (const int64_t cols : {65, 462, 1024, 2048, 10217}) {
    PaddedMatrix<float> m;
    m.Resize(3, cols);
    EXPECT_GE(m.view().stride(), cols);
    EXPECT_LE(m.view().stride(), cols + 32);
    EXPECT_EQ(m.view().stride() * 4 % 128, 64) << cols;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(m.view().Row(2).data()) % 64, 0u);
  }
}

TEST(PaddedMatrix, ShortRowsLieCloseTogether) {
  PaddedMatrix<double> m;
  m.Resize(100, 2);
  EXPECT_EQ(m.view().stride(), 2);
  EXPECT_EQ(m.bytes(), 100 * 2 * sizeof(double));
}

TEST(PaddedMatrix, ShrinkingAndGrowingBackKeepsTheMemory) {
  PaddedMatrix<float> m;
  m.Resize(256, 2048);
  const float* data = m.view().data();
  m.Resize(17, 512);
  EXPECT_EQ(m.cols(), 512);
  m.Resize(256, 2048);
  EXPECT_EQ(m.view().data(), data);
}

}  // namespace
}  // namespace antiphon
