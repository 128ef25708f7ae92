// The rounding of a layer's input to 8 bits, as the integer kernels will do it: buffers that calibration sets, and what
// training sees of them.
//
// Until somebody sets a scale, inputs pass as they are. Backward is straight-through within the range and 0 beyond it.
#pragma once

#include "nn/parameter.h"
#include "nn/quantize.h"

namespace antiphon::nn {

struct InputRounding {
  /// Inputs of 0 bits stay as they are, and nothing is held for them.
  explicit InputRounding(int bits)
      : scale("input_scale", 1, bits > 0 ? 1 : 0), zero("input_zero", 1, scale.value.cols()) {}

  Parameter scale;
  Parameter zero;

  InputRange range() const { return {scale.value(0, 0), zero.value(0, 0)}; }
  bool on() const { return scale.value.size() > 0 && scale.value(0, 0) > 0; }
  void Round(ConstMatrixView x, MatrixView to) const { RoundToRange(x, range(), to); }
  /// dx becomes 0 where x is beyond the range.
  void PassDerivative(ConstMatrixView x, MatrixView dx) const {
    const InputRange r = range();
    const float low = -(r.zero + 0.5f) * r.scale;
    const float high = (255.5f - r.zero) * r.scale;
    for (int64_t n = 0; n < x.rows(); ++n) {
      for (int64_t c = 0; c < x.cols(); ++c) {
        if (x(n, c) < low || x(n, c) > high) dx(n, c) = 0;
      }
    }
  }
};

}  // namespace antiphon::nn
