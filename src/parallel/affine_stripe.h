// Rows of an affine layer on a rank of their own: one part of a layer that several ranks hold together.
//
// The stripe's parameters are those rows of the whole network's memory, so that what the stripe learns stands in the
// whole network at once; the other rows there are stale until somebody collects them (ShareStripes). The softmax over
// stripes exchanges two numbers per frame and rank (maximum, sum of exponentials) and two more for the accuracy.
// Shapes: rows [first_row, first_row + rows) of out_dim outputs; x [N, in_dim], logits [N, rows].
// Determinism: sums over ranks in the order of the group. Threads: one. Errors: UsageError for a layer that is not
// affine or has fewer rows than ranks.
// Source: algorithms reference 1.6 and 1.20.
#pragma once

#include <memory>
#include <string>

#include "nn/loss.h"
#include "nn/network.h"
#include "optim/optimizer.h"
#include "parallel/rank_group.h"

namespace antiphon::parallel {

class AffineStripe {
 public:
  /// Part `part` of `parts` of layer `layer`; `optimizer` describes the stripe's own. `whole` outlives the stripe.
  AffineStripe(nn::Network& whole, size_t layer, int part, int parts, const Config& optimizer);

  int64_t first_row() const { return first_row_; }
  int64_t rows() const { return network_.out_dim(); }
  size_t layer() const { return layer_; }
  /// The rows as a network of one layer, without the activation that the whole network may compute along.
  nn::Network& network() { return network_; }
  optim::Optimizer& optimizer() { return *optimizer_; }
  const optim::Optimizer& optimizer() const { return *optimizer_; }

  /// First row of a part.
  static int64_t FirstRow(int64_t out_dim, int part, int parts) { return out_dim * part / parts; }

 private:
  size_t layer_;
  int64_t first_row_;
  nn::Network network_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

/// The rows of layer `layer` in `values` (laid out as the network's), which every rank of the group has learned for its
/// part, reach all ranks of the group.
void ShareStripes(nn::Network& whole, size_t layer, RankGroup& group, std::span<float> values);

/// As nn::SoftmaxCrossEntropy, over the concatenation of the ranks' logits; `derivative` [N, rows] may be the logits.
/// Targets are pdf-ids, over all outputs. All ranks get the same result.
nn::LossResult StripedSoftmaxCrossEntropy(RankGroup& group, ConstMatrixView logits, int64_t first_row,
                                          const nn::LossTargets& targets, MatrixView derivative);

}  // namespace antiphon::parallel
