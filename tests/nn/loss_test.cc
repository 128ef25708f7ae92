#include "nn/loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "random_matrix.h"

namespace antiphon::nn {
namespace {

using testing::RandomMatrix;

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

// Half the square of the logits, frame by frame.
class Squares : public SequenceLoss {
 public:
  LossResult Compute(ConstMatrixView z, const LossTargets& targets, MatrixView derivative) override {
    LossResult result;
    const auto weight = [&](int64_t r) {
      return targets.frame_weights.empty() ? 1.0F : targets.frame_weights[static_cast<size_t>(r)];
    };
    for (int64_t r = 0; r < z.rows(); ++r) {
      for (const float v : z.Row(r)) result.loss_sum += 0.5 * static_cast<double>(weight(r) * v * v);
      result.weight_sum += static_cast<double>(weight(r));
    }
    const auto scale = static_cast<float>(1 / targets.total_weight.value_or(result.weight_sum));
    for (int64_t r = 0; r < derivative.rows(); ++r) {
      for (int64_t c = 0; c < z.cols(); ++c) derivative(r, c) = scale * weight(r) * z(r, c);
    }
    return result;
  }
  std::vector<int64_t> Rows() const override { return {}; }
  std::vector<int64_t> RowsOfStreams(int, int, int) const override { return {}; }
  void SetRows(std::vector<int64_t>) override {}
};

TEST(Loss, OfACriterionHeldNearToATeacherIsTheWeightedSum) {
  const Matrix soft = Distributions(4, 7), z = RandomMatrix(4, 7, 1);
  Squares squares;
  for (const auto& weights : {std::vector<float>(), kWeights}) {
    LossTargets held = {.soft = soft, .soft_weight = 0.3, .sequence = &squares, .frame_weights = weights};
    CheckDerivative(held);
    held.total_weight = 10;
    CheckDerivative(held);
    const double criterion = SoftmaxCrossEntropy(z, {.sequence = &squares, .frame_weights = weights}, {}).loss();
    const double divergence = SoftmaxCrossEntropy(z, {.soft = soft, .frame_weights = weights}, {}).loss();
    EXPECT_NEAR(SoftmaxCrossEntropy(z, held, {}).loss(), 0.7 * criterion + 0.3 * divergence, 1e-9);
    // In the logits' own memory.
    Matrix apart(4, 7), in_place = z;
    SoftmaxCrossEntropy(z, held, apart);
    SoftmaxCrossEntropy(in_place, held, in_place);
    EXPECT_TRUE(std::equal(apart.data(), apart.data() + apart.size(), in_place.data()));
  }
}

TEST(Loss, DerivativesAgreeWithDifferences) {
  const Matrix soft = Distributions(4, 7);
  CheckDerivative({.pdf_ids = kIds});
  CheckDerivative({.pdf_ids = kIds, .frame_weights = kWeights});
  CheckDerivative({.pdf_ids = kIds, .frame_weights = kWeights, .total_weight = 10});
  CheckDerivative({.soft = soft});
  CheckDerivative({.pdf_ids = kIds, .soft = soft, .soft_weight = 0.3, .frame_weights = kWeights});
}

TEST(Loss, DerivativesOfTeachersAndHeadsAgreeWithDifferences) {
  const Matrix soft = Distributions(4, 7);
  CheckDerivative({.soft = soft, .temperature = 3});
  CheckDerivative({.pdf_ids = kIds, .soft = soft, .soft_weight = 0.4, .temperature = 0.5, .frame_weights = kWeights});
}

TEST(Loss, IsTheSameWhereTheDerivativeOverwritesTheLogits) {
  const Matrix soft = Distributions(4, 7);
  const LossTargets all[] = {{.pdf_ids = kIds},
                             {.soft = soft, .temperature = 3},
                             {.pdf_ids = kIds, .soft = soft, .soft_weight = 0.3, .frame_weights = kWeights}};
  for (const LossTargets& targets : all) {
    const Matrix z = RandomMatrix(4, 7, 1);
    Matrix apart(4, 7), own = z;
    const LossResult a = SoftmaxCrossEntropy(z, targets, apart);
    const LossResult b = SoftmaxCrossEntropy(own, targets, own);
    EXPECT_EQ(a.loss_sum, b.loss_sum);
    EXPECT_EQ(a.correct_sum, b.correct_sum);
    EXPECT_EQ(std::memcmp(apart.data(), own.data(), sizeof(float) * static_cast<size_t>(own.size())), 0);
  }
}

TEST(Loss, OfSeveralHeadsIsTheSumOfTheirs) {
  const Matrix z = RandomMatrix(4, 6, 1);
  const std::vector<int32_t> ids = {0, 2, 1, 1, 2, 0, 0, 1};
  Matrix dz(4, 6);
  const LossResult both =
      SoftmaxCrossEntropy(z, {.pdf_ids = ids, .heads = 2, .frame_weights = kWeights, .total_weight = 10}, dz);
  LossResult sum;
  for (const int64_t head : {0, 1}) {
    std::vector<int32_t> mine;
    for (size_t n = 0; n < 4; ++n) mine.push_back(ids[2 * n + static_cast<size_t>(head)]);
    Matrix logits(4, 3), d(4, 3);
    for (int64_t n = 0; n < 4; ++n) std::copy_n(&z(n, 3 * head), 3, &logits(n, 0));
    sum += SoftmaxCrossEntropy(logits, {.pdf_ids = mine, .frame_weights = kWeights, .total_weight = 10}, d);
    for (int64_t n = 0; n < 4; ++n) {
      for (int64_t k = 0; k < 3; ++k) EXPECT_EQ(dz(n, 3 * head + k), d(n, k));
    }
  }
  EXPECT_NEAR(both.loss_sum, sum.loss_sum, 1e-9);
  EXPECT_EQ(both.correct_sum, sum.correct_sum);
  EXPECT_EQ(both.weight_sum, sum.weight_sum);
  EXPECT_THROW(SoftmaxCrossEntropy(z, {.pdf_ids = ids, .heads = 4}, dz), ShapeError);
}

TEST(Loss, OfATeacherThatTheStudentEqualsHasNoGradient) {
  for (const double temperature : {1.0, 2.0, 7.0}) {
    const Matrix z = RandomMatrix(4, 7, 1);
    Matrix soft(4, 7);
    for (int64_t r = 0; r < 4; ++r) {
      double sum = 0;
      for (int64_t k = 0; k < 7; ++k) sum += std::exp(static_cast<double>(z(r, k)) / temperature);
      for (int64_t k = 0; k < 7; ++k) {
        soft(r, k) = static_cast<float>(std::exp(static_cast<double>(z(r, k)) / temperature) / sum);
      }
    }
    Matrix dz(4, 7);
    const LossResult r = SoftmaxCrossEntropy(z, {.soft = soft, .temperature = temperature}, dz);
    EXPECT_NEAR(r.loss(), 0, 1e-5);
    for (int64_t i = 0; i < dz.size(); ++i) EXPECT_NEAR(dz.data()[i], 0, 1e-6);
  }
}

// T·(softmax(z_s/T) − softmax(z_t/T)) → (z_s − z̄_s − z_t + z̄_t) / K.
TEST(Loss, OfAHotTeacherComparesLogits) {
  constexpr double kT = 1e4;
  const Matrix z = RandomMatrix(1, 7, 1);
  const Matrix teacher = RandomMatrix(1, 7, 2);
  Matrix soft(1, 7), dz(1, 7);
  double sum = 0, mean_z = 0, mean_t = 0;
  for (int64_t k = 0; k < 7; ++k) {
    sum += std::exp(static_cast<double>(teacher(0, k)) / kT);
    mean_z += static_cast<double>(z(0, k)) / 7;
    mean_t += static_cast<double>(teacher(0, k)) / 7;
  }
  for (int64_t k = 0; k < 7; ++k)
    soft(0, k) = static_cast<float>(std::exp(static_cast<double>(teacher(0, k)) / kT) / sum);
  SoftmaxCrossEntropy(z, {.soft = soft, .temperature = kT}, dz);
  for (int64_t k = 0; k < 7; ++k) {
    const double limit = (static_cast<double>(z(0, k)) - mean_z - static_cast<double>(teacher(0, k)) + mean_t) / 7;
    EXPECT_NEAR(static_cast<double>(dz(0, k)), limit, 5e-4);  // fp32 probabilities times T
  }
}

TEST(Loss, IsTheSameWhenTheDerivativeTakesTheLogitsPlace) {
  const Matrix z = RandomMatrix(12, 9, 5);
  const Matrix soft = Distributions(12, 9);
  const std::vector<int32_t> ids = {0, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1};
  for (const bool with_ids : {false, true}) {
    LossTargets targets{.soft = soft, .soft_weight = 0.5, .temperature = 2};
    if (with_ids) targets.pdf_ids = ids;
    Matrix apart(12, 9);
    const LossResult expected = SoftmaxCrossEntropy(z, targets, apart);
    Matrix in_place(ConstMatrixView(z.view()));
    const LossResult found = SoftmaxCrossEntropy(in_place, targets, in_place);
    EXPECT_EQ(found.loss_sum, expected.loss_sum);
    EXPECT_EQ(found.correct_sum, expected.correct_sum);
    EXPECT_GT(expected.correct_sum, 0);
    for (int64_t i = 0; i < z.size(); ++i) EXPECT_EQ(in_place.data()[i], apart.data()[i]);
  }
}

TEST(Loss, WithoutWeightOnTheTeacherIsThatOfHardTargetsBitForBit) {
  const Matrix z = RandomMatrix(4, 7, 1);
  const Matrix soft = Distributions(4, 7);
  Matrix a(4, 7), b(4, 7);
  const double hard = SoftmaxCrossEntropy(z, {.pdf_ids = kIds}, a).loss_sum;
  EXPECT_EQ(SoftmaxCrossEntropy(z, {.pdf_ids = kIds, .soft = soft, .soft_weight = 0, .temperature = 2}, b).loss_sum,
            hard);
  EXPECT_EQ(std::memcmp(a.data(), b.data(), sizeof(float) * 28), 0);
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
