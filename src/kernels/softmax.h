// Softmax over rows, and softmax cross-entropy with its derivative.
//
// Shapes: z, y [N, K]. Outputs may be the inputs' own memory.
// Units: nats.
// Threads: the caller's compute threads; results do not depend on their number. A row with NaN or +∞ gives NaN.
// Errors: ShapeError naming both shapes; InputError naming frame and id for a target outside [0, K).
#pragma once

#include <cstdint>

#include "device/kernel_table.h"
#include "math/matrix.h"

namespace antiphon {

/// y = softmax(z) per row, or its logarithm.
struct SoftmaxOp {
  static constexpr const char* kName = "softmax";
  using Function = void (*)(bool log, ConstMatrixView z, MatrixView y);
};

/// One frame's part of the cross-entropy.
struct FrameLoss {
  double loss;   // −log softmax(z)[target]
  bool correct;  // the target is the first of the largest logits
};

/// For each row n with target t: losses[n], and dz = scales[n] · (softmax(z) − onehot(t)) unless dz is empty.
struct SoftmaxCrossEntropyOp {
  static constexpr const char* kName = "softmax_cross_entropy";
  using Function = void (*)(ConstMatrixView z, const int32_t* targets, const float* scales, FrameLoss* losses,
                            MatrixView dz);
};

inline void Softmax(bool log, ConstMatrixView z, MatrixView y) { CpuKernel<SoftmaxOp>()(log, z, y); }
inline void SoftmaxCrossEntropyRows(ConstMatrixView z, const int32_t* targets, const float* scales, FrameLoss* losses,
                                    MatrixView dz) {
  CpuKernel<SoftmaxCrossEntropyOp>()(z, targets, scales, losses, dz);
}

}  // namespace antiphon
