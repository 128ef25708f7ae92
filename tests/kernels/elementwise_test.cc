#include "kernels/elementwise.h"

#include "base/error.h"
#include "variants.h"

namespace antiphon {
namespace {

using testing::ExpectClose;
using testing::ForVariants;
using testing::kInfinity;
using testing::kNaN;
using testing::OddSizes;
using testing::Ragged;
using testing::Size;

void PutSpecialValues(MatrixView x) {
  const float special[] = {kNaN, kInfinity, -kInfinity, 0.0f, -0.0f, 1e30f, -1e30f, 1e-40f, 100.0f, -100.0f};
  int64_t i = 0;
  for (const float v : special) {
    if (x.empty()) return;
    x(i % x.rows(), (i * 7) % x.cols()) = v;
    ++i;
  }
}

TEST(ActivationForward, AgreesWithTheReference) {
  ForVariants<ActivationForwardOp>([](const std::string& name, auto function, auto reference) {
    for (const Size& size : OddSizes()) {
      for (const Activation f : {Activation::kRelu, Activation::kSigmoid, Activation::kTanh}) {
        for (const bool packed : {false, true}) {
          const Ragged x(size, 1, 3, packed);
          PutSpecialValues(x.view);
          Ragged y(size, 2, 1, packed), expected(size, 2, 1, packed);
          const uint64_t outside = y.HashOutside();
          function(f, x.view, y.view);
          reference(f, x.view, expected.view);
          ExpectClose(y.view, expected.view, 1e-6, name);
          EXPECT_EQ(y.HashOutside(), outside) << name;
          function(f, x.view, x.view);  // in place
          ExpectClose(x.view, expected.view, 1e-6, name + " in place");
        }
      }
    }
  });
}

TEST(ActivationBackward, AgreesWithTheReference) {
  ForVariants<ActivationBackwardOp>([](const std::string& name, auto function, auto reference) {
    for (const Size& size : OddSizes()) {
      for (const Activation f : {Activation::kRelu, Activation::kSigmoid, Activation::kTanh}) {
        const Ragged y(size, 1, 0.5), dy(size, 2);
        if (!y.view.empty()) y.view(0, 0) = kNaN;
        Ragged dx(size, 3), expected(size, 3);
        const uint64_t outside = dx.HashOutside();
        function(f, y.view, dy.view, dx.view);
        reference(f, y.view, dy.view, expected.view);
        ExpectClose(dx.view, expected.view, 1e-6, name);
        EXPECT_EQ(dx.HashOutside(), outside) << name;
      }
    }
  });
}

TEST(ConvertToBf16, AgreesWithTheReferenceBitForBit) {
  ForVariants<ConvertToBf16Op>([](const std::string& name, auto function, auto reference) {
    for (const Size& size : OddSizes()) {
      const Ragged x(size, 1);
      PutSpecialValues(x.view);
      if (size.rows > 0 && size.cols > 2) {
        x.view(0, 1) = 1.0f + 1.0f / 256;  // ties
        x.view(0, 2) = 1.0f + 3.0f / 256;
      }
      Bf16Matrix y, expected;
      y.Resize(size.rows, size.cols);
      expected.Resize(size.rows, size.cols);
      function(1.5f, x.view, y);
      reference(1.5f, x.view, expected);
      for (int64_t i = 0; i < y.size(); ++i) EXPECT_EQ(y.data()[i].bits, expected.data()[i].bits) << name << " " << i;
      function(1.0f, x.view, y);
      reference(1.0f, x.view, expected);
      for (int64_t i = 0; i < y.size(); ++i) EXPECT_EQ(y.data()[i].bits, expected.data()[i].bits) << name << " " << i;
    }
  });
}

TEST(Scale, AgreesWithTheReference) {
  ForVariants<ScaleOp>([](const std::string& name, auto function, auto reference) {
    for (const Size& size : OddSizes()) {
      const Ragged x(size, 1);
      PutSpecialValues(x.view);
      Ragged y(size, 2), expected(size, 2);
      function(-0.3f, x.view, y.view);
      reference(-0.3f, x.view, expected.view);
      ExpectClose(y.view, expected.view, 0, name);
    }
  });
}

TEST(AddScaled, AgreesWithTheReference) {
  ForVariants<AddScaledOp>([](const std::string& name, auto function, auto reference) {
    for (const Size& size : OddSizes()) {
      const Ragged x(size, 1);
      PutSpecialValues(x.view);
      Ragged y(size, 2), expected(size, 2);
      function(-0.3f, x.view, y.view);
      reference(-0.3f, x.view, expected.view);
      ExpectClose(y.view, expected.view, 1e-6, name);
    }
  });
}

TEST(Elementwise, RefusesWrongShapes) {
  Matrix a(2, 3), b(3, 2);
  EXPECT_THROW(ActivationForward(Activation::kRelu, a, b), ShapeError);
  EXPECT_THROW(Scale(1, a, b), ShapeError);
}

}  // namespace
}  // namespace antiphon
