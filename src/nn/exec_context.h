// What a forward or backward pass is told from outside: arithmetic, mode, and where in the training it stands.
//
// Plain value; the same context goes to Forward and, with what the loss adds, to the matching Backward.
#pragma once

#include <cstdint>

#include "base/sequence_layout.h"
#include "math/gemm.h"

namespace antiphon::nn {

class RankSums;
struct SideTargets;

struct ExecContext {
  /// What the layers' matrix products are rounded to.
  Precision precision = Precision::kFp32;
  /// Batch statistics and dropout on; off when scoring.
  bool training = false;
  /// Random masks depend on (seed, step, layer, position), never on threads. `step` counts minibatches over the whole
  /// run and all workers.
  uint64_t seed = 0;
  int64_t step = 0;
  /// Multiplies every dropout layer's proportion: a schedule in fraction of data sets it.
  double dropout_factor = 1.0;
  /// Share of the training run that is done, from 0 to 1: gradient reversal grows with it.
  double progress = 0;
  /// What layers of type "side-task" learn from these frames (nn/side_targets.h); null: nothing.
  SideTargets* side_targets = nullptr;
  /// These frames are a part of a minibatch that several ranks compute together, in training: layers that look at
  /// whole minibatches (batch-norm) take all of it (nn/rank_sums.h). Null: they are all.
  RankSums* ranks = nullptr;
  /// How rows follow one another in time; null: as one sequence that begins with the first row, which is the same as
  /// frames that stand alone for layers that look at one frame only.
  const SequenceLayout* sequences = nullptr;

  /// For Backward (nn::WithLoss): what the derivative of the loss was divided by, in weights of frames, and which share
  /// of that these frames are, where their gradient is a part of a larger one. 0: as many as there are rows.
  double loss_weight = 0;
  double loss_share = 1;

  /// Recurrent layers limit the derivatives that go back in time (their `clip`). Off where a backward pass must be
  /// linear in what it is given: in products with the curvature.
  bool clip_in_time = true;

  int streams() const { return sequences != nullptr ? sequences->streams : 1; }
};

}  // namespace antiphon::nn
