#include "nn/loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/random.h"

namespace antiphon::nn {
namespace {

Matrix RandomMatrix(int64_t rows, int64_t cols, uint64_t seed) {
  Rng rng(seed);
  Matrix m(rows, cols);
  for (int64_t i = 0; i < m.size(); ++i) m.data()[i] = static_cast<float>(rng.Normal());
  return m;
}

Matrix Distributions(int64_t rows, int64_t cols) {
  Matrix m = RandomMatrix(rows, cols, 8);
  for (int64_t r = 0; r < rows; ++r) {
    float sum = 0;
    for (float& v : m.Row(r)) sum += v = std::exp(v);
    for (float& v : m.Row(r)) v /= sum;
  }
  return m;
}

// Derivative of the averaged loss by central differences in double precision.
void CheckDerivative(const LossTargets& targets) {
  Matrix z = RandomMatrix(4, 7, 1);
  Matrix dz(4, 7);
  SoftmaxCrossEntropy(z, targets, dz);
  for (int64_t i = 0; i < z.size(); ++i) {
    const float at = z.data()[i];
    const auto loss = [&](float shift) {
      z.data()[i] = at + shift;
      const LossResult r = SoftmaxCrossEntropy(z, targets, MatrixView());
      return r.loss_sum / targets.total_weight.value_or(r.weight_sum);
    };
    const double numeric = (loss(0.01f) - loss(-0.01f)) / 0.02;
    z.data()[i] = at;
    EXPECT_NEAR(dz.data()[i], numeric, 1e-4);
  }
}

const std::vector<int32_t> kIds = {3, 0, 6, 3};
const std::vector<float> kWeights = {1, 0.5f, 0, 2};

TEST(Loss, DerivativesAgreeWithDifferences) {
  const Matrix soft = Distributions(4, 7);
  CheckDerivative({.pdf_ids = kIds});
  CheckDerivative({.pdf_ids = kIds, .frame_weights = kWeights});
  CheckDerivative({.pdf_ids = kIds, .frame_weights = kWeights, .total_weight = 10});
  CheckDerivative({.soft = soft});
  CheckDerivative({.pdf_ids = kIds, .soft = soft, .soft_weight = 0.3, .frame_weights = kWeights});
}

TEST(Loss, SoftTargetsOfOneClassAreHardTargets) {
  const Matrix z = RandomMatrix(4, 7, 1);
  Matrix onehot(4, 7);
  for (int64_t r = 0; r < 4; ++r) onehot(r, kIds[static_cast<size_t>(r)]) = 1;
  Matrix a(4, 7), b(4, 7);
  const LossResult hard = SoftmaxCrossEntropy(z, {.pdf_ids = kIds}, a);
  const LossResult soft = SoftmaxCrossEntropy(z, {.soft = onehot}, b);
  EXPECT_NEAR(hard.loss(), soft.loss(), 1e-5);
  EXPECT_EQ(hard.correct_sum, soft.correct_sum);
  for (int64_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a.data()[i], b.data()[i], 1e-6);
}

TEST(Loss, IsTheLogarithmOfTheClassesForEqualLogits) {
  const LossResult r = SoftmaxCrossEntropy(Matrix(4, 7), {.pdf_ids = kIds}, MatrixView());
  EXPECT_NEAR(r.loss(), std::log(7.0), 1e-6);
  EXPECT_EQ(r.weight_sum, 4);
  EXPECT_EQ(r.correct_sum, 1);  // only the target 0 is the first of equal logits
}

TEST(Loss, OfPartsAddsUp) {
  const Matrix z = RandomMatrix(4, 7, 1);
  const LossResult whole = SoftmaxCrossEntropy(z, {.pdf_ids = kIds}, MatrixView());
  LossResult parts;
  for (int64_t r = 0; r < 4; ++r) {
    parts += SoftmaxCrossEntropy(z.view().Rows(r, 1), {.pdf_ids = std::span(kIds).subspan(static_cast<size_t>(r), 1)},
                                 MatrixView());
  }
  EXPECT_NEAR(parts.loss(), whole.loss(), 1e-12);
}

TEST(Loss, HandlesNoFramesAndNoWeight) {
  Matrix none(0, 7);
  EXPECT_EQ(SoftmaxCrossEntropy(none, {}, none).loss(), 0);
  const std::vector<float> zeros(4, 0.0f);
  Matrix z = RandomMatrix(4, 7, 1);
  SoftmaxCrossEntropy(z, {.pdf_ids = kIds, .frame_weights = zeros}, z);
  for (int64_t i = 0; i < z.size(); ++i) EXPECT_EQ(z.data()[i], 0);
}

TEST(Loss, NamesTheFrameOfAWrongTarget) {
  const std::vector<int32_t> ids = {3, 0, 7, 3};
  try {
    SoftmaxCrossEntropy(Matrix(4, 7), {.pdf_ids = ids}, MatrixView());
    FAIL();
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("frame 2: target 7 is outside 0 … 6"));
  }
  EXPECT_THROW(SoftmaxCrossEntropy(Matrix(3, 7), {.pdf_ids = ids}, MatrixView()), ShapeError);
}

TEST(Loss, ShowsNonFiniteLogits) {
  Matrix z(1, 40);
  z(0, 35) = NAN;
  const std::vector<int32_t> ids = {3};
  EXPECT_TRUE(std::isnan(SoftmaxCrossEntropy(z, {.pdf_ids = ids}, MatrixView()).loss()));
}

}  // namespace
}  // namespace antiphon::nn
