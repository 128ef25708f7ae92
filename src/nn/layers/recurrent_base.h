// What recurrent layers share: where a minibatch's first states come from, where its last ones go, and products that
// obey the pass's precision.
//
// States of T frames of S streams lie in [(T + 1)·S, dim]: block k (S rows) is the state after k frames, block 0 what
// the last minibatch left, or zero where an utterance begins.
#pragma once

#include "nn/layer.h"

namespace antiphon::nn {

class RecurrentBase : public Layer {
 public:
  LayerProperties properties() const override { return {.recurrent = true}; }

 protected:
  using Layer::Layer;

  /// Sizes states of `rows` frames and sets block 0.
  MatrixView BeginStates(const ExecContext& ctx, Workspace& ws, size_t slot, int64_t rows, int64_t dim) const;
  /// Keeps the state after the last frame that the next piece does not contain again.
  void KeepStates(const ExecContext& ctx, Workspace& ws, size_t slot, ConstMatrixView states) const;
};

/// y = x·op(W), rounding x to x16 if the pass runs in bf16 (else x16 may be empty).
void MultiplyByWeight(const ExecContext& ctx, ConstMatrixView x, Bf16View x16, Transpose trans, const Parameter& weight,
                      MatrixView y, const GemmEpilogue& epilogue = {});

/// A limit for derivatives that go back through time, given as one for losses that are summed over frames; 0: none.
float ClipLimit(const ExecContext& ctx, double clip, int64_t rows);
/// y = clamp(y, ±limit) + x; limit 0: no limit.
void ClampAndAdd(float limit, ConstMatrixView x, MatrixView y);

}  // namespace antiphon::nn
