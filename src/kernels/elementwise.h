// Activations forward and backward, and conversion to bf16: one pass over memory each.
//
// Shapes: all matrices of a call have the same shape, any stride. Output may be the input's own memory.
// Threads: the caller's compute threads; results do not depend on their number. NaN goes through.
// Errors: ShapeError naming both shapes.
#pragma once

#include "device/kernel_table.h"
#include "math/bf16.h"
#include "math/gemm.h"
#include "math/matrix.h"

namespace antiphon {

/// y = f(x).
struct ActivationForwardOp {
  static constexpr const char* kName = "activation_forward";
  using Function = void (*)(Activation, ConstMatrixView x, MatrixView y);
};
/// dx = dy · f'(x), with f' taken from the output y.
struct ActivationBackwardOp {
  static constexpr const char* kName = "activation_backward";
  using Function = void (*)(Activation, ConstMatrixView y, ConstMatrixView dy, MatrixView dx);
};
/// y = bf16(scale · x), rounded to nearest even.
struct ConvertToBf16Op {
  static constexpr const char* kName = "convert_to_bf16";
  using Function = void (*)(float scale, ConstMatrixView x, Bf16View y);
};
/// y = scale · x.
struct ScaleOp {
  static constexpr const char* kName = "scale";
  using Function = void (*)(float scale, ConstMatrixView x, MatrixView y);
};
/// y += scale · x.
struct AddScaledOp {
  static constexpr const char* kName = "add_scaled";
  using Function = void (*)(float scale, ConstMatrixView x, MatrixView y);
};

inline void ActivationForward(Activation f, ConstMatrixView x, MatrixView y) {
  CpuKernel<ActivationForwardOp>()(f, x, y);
}
inline void ActivationBackward(Activation f, ConstMatrixView y, ConstMatrixView dy, MatrixView dx) {
  CpuKernel<ActivationBackwardOp>()(f, y, dy, dx);
}
inline void ConvertToBf16(float scale, ConstMatrixView x, Bf16View y) { CpuKernel<ConvertToBf16Op>()(scale, x, y); }
inline void Scale(float scale, ConstMatrixView x, MatrixView y) { CpuKernel<ScaleOp>()(scale, x, y); }
inline void AddScaled(float scale, ConstMatrixView x, MatrixView y) { CpuKernel<AddScaledOp>()(scale, x, y); }

}  // namespace antiphon
