// Softmax cross-entropy over logits whose columns are divided over ranks.
//
// Exchanged: four numbers per frame and rank (largest logit, sum of exponentials, the target's logit, whether it is the
// largest). Shapes: logits [N, columns held]. Determinism: sums over ranks in the order of the group.
// Threads: the caller's compute threads. Errors: UsageError for soft targets.
// Source: algorithms reference 1.6.
#pragma once

#include "nn/loss.h"
#include "parallel/rank_group.h"

namespace antiphon::parallel {

/// As nn::SoftmaxCrossEntropy over the concatenation of the ranks' logits, of which this rank holds those from
/// `first_column`; `derivative` [N, columns held] may be the logits. All ranks get the same result.
nn::LossResult StripedSoftmaxCrossEntropy(RankGroup& group, ConstMatrixView logits, int64_t first_column,
                                          const nn::LossTargets& targets, MatrixView derivative);

}  // namespace antiphon::parallel
