#include "kernels/one_bit.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace antiphon {
namespace {

TEST(OneBitKernel, VariantsAgreeOnOddShapesAndStrides) {
  for (const auto& [rows, cols] : {std::pair(1, 1), std::pair(7, 64), std::pair(300, 65), std::pair(33, 191),
                                   std::pair(1000, 40), std::pair(2, 7)}) {
    Matrix x(rows, cols + 3);
    Matrix remainder(rows, cols + 5);
    Rng rng(3, static_cast<uint64_t>(rows * 1000 + cols));
    for (int64_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(rng.Normal());
    for (int64_t i = 0; i < remainder.size(); ++i) remainder.data()[i] = static_cast<float>(0.3 * rng.Normal());
    x(0, 0) = 0;
    remainder(0, 0) = -0.0f;

    std::vector<Matrix> means, remainders, decoded;
    std::vector<std::vector<uint8_t>> bits;
    for (const auto& entry : KernelTable<OneBitEncodeOp>::Get().entries()) {
      Matrix mine = remainder;
      means.emplace_back(2, cols);
      bits.emplace_back(static_cast<size_t>(OneBitBytes(rows, cols)), uint8_t{0xaa});
      entry.function(x.view().Cols(1, cols), mine.view().Cols(2, cols), means.back(), bits.back().data());
      remainders.push_back(std::move(mine));
    }
    ASSERT_EQ(means.size(), 2u);
    EXPECT_EQ(bits[0], bits[1]) << rows << " × " << cols;
    for (int64_t i = 0; i < means[0].size(); ++i) EXPECT_NEAR(means[0].data()[i], means[1].data()[i], 1e-5);
    // What lies outside of the views stays as it was.
    for (int64_t i = 0; i < remainder.size(); ++i) {
      EXPECT_NEAR(remainders[0].data()[i], remainders[1].data()[i], 1e-5);
    }
    for (const auto& entry : KernelTable<OneBitDecodeOp>::Get().entries()) {
      decoded.emplace_back(rows, cols);
      entry.function(means[0], bits[0].data(), decoded.back());
    }
    for (int64_t i = 0; i < decoded[0].size(); ++i) EXPECT_EQ(decoded[0].data()[i], decoded[1].data()[i]);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        EXPECT_NEAR(decoded[0](r, c) + remainders[0](r, c + 2), x(r, c + 1) + remainder(r, c + 2), 1e-5);
      }
    }
  }
}

}  // namespace
}  // namespace antiphon
