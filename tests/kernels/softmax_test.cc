#include "kernels/softmax.h"

#include "base/error.h"
#include "variants.h"

namespace antiphon {
namespace {

using testing::ExpectClose;
using testing::ForVariants;
using testing::kNaN;
using testing::OddSizes;
using testing::Ragged;
using testing::Size;

TEST(Softmax, AgreesWithTheReference) {
  ForVariants<SoftmaxOp>([](const std::string& name, auto function, auto reference) {
    for (const Size& size : OddSizes()) {
      for (const bool log : {false, true}) {
        for (const double scale : {1.0, 50.0}) {
          const Ragged z(size, 1, scale);
          if (size.rows > 1 && size.cols > 1) z.view(1, 1) = kNaN;
          Ragged y(size, 2), expected(size, 2);
          const uint64_t outside = y.HashOutside();
          function(log, z.view, y.view);
          reference(log, z.view, expected.view);
          ExpectClose(y.view, expected.view, 2e-6, name);
          EXPECT_EQ(y.HashOutside(), outside) << name;
        }
      }
    }
  });
}

TEST(Softmax, OfANaNIsNaN) {
  Matrix z(1, 40);
  z(0, 33) = kNaN;
  Softmax(false, z, z);
  EXPECT_TRUE(std::isnan(z(0, 0)));
}

TEST(SoftmaxCrossEntropy, AgreesWithTheReference) {
  ForVariants<SoftmaxCrossEntropyOp>([](const std::string& name, auto function, auto reference) {
    for (const Size& size : OddSizes()) {
      if (size.cols == 0) continue;
      const Ragged z(size, 1, 4), scales({1, size.rows + 1}, 2, 1, true);
      std::vector<int32_t> targets;
      for (int64_t r = 0; r < size.rows; ++r) targets.push_back(static_cast<int32_t>((r * 13) % size.cols));
      std::vector<FrameLoss> losses(targets.size()), expected_losses(targets.size()), losses_only(targets.size());
      Ragged dz(size, 3), expected(size, 3);
      function(z.view, targets.data(), scales.view.data(), losses.data(), dz.view);
      reference(z.view, targets.data(), scales.view.data(), expected_losses.data(), expected.view);
      function(z.view, targets.data(), scales.view.data(), losses_only.data(), MatrixView());
      ExpectClose(dz.view, expected.view, 2e-6, name);
      for (size_t i = 0; i < losses.size(); ++i) {
        EXPECT_NEAR(losses[i].loss, expected_losses[i].loss, 1e-5 * (1 + expected_losses[i].loss)) << name;
        EXPECT_EQ(losses[i].correct, expected_losses[i].correct) << name;
        EXPECT_EQ(losses_only[i].loss, losses[i].loss) << name;
      }
      function(z.view, targets.data(), scales.view.data(), losses.data(), z.view);  // in place
      ExpectClose(z.view, expected.view, 2e-6, name + " in place");
    }
  });
}

TEST(SoftmaxCrossEntropy, CountsATieOnlyForItsFirst) {
  ForVariants<SoftmaxCrossEntropyOp>([](const std::string& name, auto function, auto reference) {
    const Matrix z(2, 20);
    const int32_t targets[] = {0, 7};
    const float scales[] = {1, 1};
    FrameLoss losses[2];
    for (const auto f : {function, reference}) {
      f(z, targets, scales, losses, MatrixView());
      EXPECT_TRUE(losses[0].correct) << name;
      EXPECT_FALSE(losses[1].correct) << name;
    }
  });
}

TEST(SoftmaxCrossEntropy, RefusesTargetsOutside) {
  const Matrix z(1, 5);
  const float scale = 1;
  FrameLoss loss;
  for (const int32_t target : {-1, 5}) {
    EXPECT_THROW(SoftmaxCrossEntropyRows(z, &target, &scale, &loss, MatrixView()), InputError);
  }
}

}  // namespace
}  // namespace antiphon
