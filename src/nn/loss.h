// Softmax cross-entropy over logits, with its derivative, in one sweep over memory.
//
// L = Σ_n w_n · (−Σ_k t_nk·log softmax(z_n)_k) / W, with W = Σ w_n unless given: frame-averaged.
// Shapes: logits [N, K]; targets one pdf-id per frame or [N, K] distributions (rows sum to 1). N may be 0.
// Units: nats.
// Threads: OpenMP team of the caller; sums are in a fixed order whatever its size.
// Errors: InputError naming frame and id for a target outside [0, K).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "math/matrix.h"

namespace antiphon::nn {

struct LossTargets {
  /// One pdf-id per frame …
  std::span<const int32_t> pdf_ids = {};
  /// … or a distribution per frame; with both, t = (1 − soft_weight)·onehot + soft_weight·soft.
  ConstMatrixView soft = {};
  double soft_weight = 1.0;
  /// One weight per frame; empty: all 1.
  std::span<const float> frame_weights = {};
  /// W; default Σ w_n. A worker with a share of a common minibatch gives the whole minibatch's.
  std::optional<double> total_weight = {};
};

struct LossResult {
  double loss_sum = 0;     // Σ w_n·loss_n, not divided by W
  double weight_sum = 0;   // Σ w_n
  double correct_sum = 0;  // Σ w_n over frames whose largest logit is the target (largest t_nk)
  double loss() const { return weight_sum > 0 ? loss_sum / weight_sum : 0; }
  double frame_accuracy() const { return weight_sum > 0 ? correct_sum / weight_sum : 0; }
  LossResult& operator+=(const LossResult& other);
};

/// Loss and dL/dlogits; `derivative` may be the logits' own memory, or empty if only the loss is wanted.
LossResult SoftmaxCrossEntropy(ConstMatrixView logits, const LossTargets& targets, MatrixView derivative);

}  // namespace antiphon::nn
