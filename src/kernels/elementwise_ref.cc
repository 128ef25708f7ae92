#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/shapes.h"

namespace antiphon {
namespace {

float Apply(Activation f, float x) {
  switch (f) {
    case Activation::kRelu:
      return x < 0 ? 0.0f : x;
    case Activation::kSigmoid:
      return static_cast<float>(1 / (1 + std::exp(-static_cast<double>(x))));
    case Activation::kTanh:
      return static_cast<float>(std::tanh(static_cast<double>(x)));
    default:
      return x;
  }
}

float Derivative(Activation f, float y) {
  switch (f) {
    case Activation::kRelu:
      return y > 0 ? 1.0f : (std::isnan(y) ? y : 0.0f);
    case Activation::kSigmoid:
      return y * (1 - y);
    case Activation::kTanh:
      return 1 - y * y;
    default:
      return 1;
  }
}

void ForwardRef(Activation f, ConstMatrixView x, MatrixView y) {
  ExpectSameShape("an activation", x, y);
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t c = 0; c < x.cols(); ++c) y(r, c) = Apply(f, x(r, c));
  }
}

void BackwardRef(Activation f, ConstMatrixView y, ConstMatrixView dy, MatrixView dx) {
  ExpectSameShape("an activation's derivative", y, dy);
  ExpectSameShape("an activation's derivative", y, dx);
  for (int64_t r = 0; r < y.rows(); ++r) {
    for (int64_t c = 0; c < y.cols(); ++c) dx(r, c) = dy(r, c) * Derivative(f, y(r, c));
  }
}

void ConvertRef(float scale, ConstMatrixView x, Bf16View y) {
  ExpectSameShape("conversion to bf16", x, y);
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t c = 0; c < x.cols(); ++c) y(r, c) = ToBf16(scale * x(r, c));
  }
}

void ScaleRef(float scale, ConstMatrixView x, MatrixView y) {
  ExpectSameShape("scaling", x, y);
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t c = 0; c < x.cols(); ++c) y(r, c) = scale * x(r, c);
  }
}

void AddScaledRef(float scale, ConstMatrixView x, MatrixView y) {
  ExpectSameShape("scaled addition", x, y);
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t c = 0; c < x.cols(); ++c) y(r, c) = std::fma(scale, x(r, c), y(r, c));
  }
}

REGISTER_KERNEL(ActivationForwardOp, DeviceKind::kCpu, DataType::kFloat32, "ref", 0, &ForwardRef);
REGISTER_KERNEL(ActivationBackwardOp, DeviceKind::kCpu, DataType::kFloat32, "ref", 0, &BackwardRef);
REGISTER_KERNEL(ConvertToBf16Op, DeviceKind::kCpu, DataType::kFloat32, "ref", 0, &ConvertRef);
REGISTER_KERNEL(ScaleOp, DeviceKind::kCpu, DataType::kFloat32, "ref", 0, &ScaleRef);
REGISTER_KERNEL(AddScaledOp, DeviceKind::kCpu, DataType::kFloat32, "ref", 0, &AddScaledRef);

}  // namespace
}  // namespace antiphon
