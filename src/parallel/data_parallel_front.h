// The lowest layers of a network whose upper ones are divided by outputs (striped_network.h): every rank of the group
// computes them for its own frames of the minibatch, all of them together for the whole.
//
// Layers with few weights and much work (convolutional, recurrent, time-delay ones under a wide output layer) cost
// least this way, layers with many weights cost least divided. Forward, the group gathers what the highest of these
// layers gives, so that the divided layers see all frames; backward, each rank gets the derivative of its own frames,
// and the gradients of these layers' weights are summed over the group, as in synchronous SGD. Exchanged per minibatch
// of N rows: 4·N·width bytes received by each rank from the others together forward, as much backward, and 2·(n − 1)/n
// · 4 bytes per weight of these layers. Frames are dealt in runs of rows; those of sequences by streams, so that
// carried states stay with the rank that has the stream. Batch normalisation takes the statistics of the whole
// minibatch; masks (dropout) are drawn anew for each rank. An optimiser that works on factors preconditions each rank's
// own. Determinism: sums over ranks in the order of the group; against one rank, sums over frames are ordered
// otherwise. Threads: one. Errors: UsageError from FrontLayers; those of the group. Source: Krizhevsky, arXiv
// 1404.5997, 2014.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/sequence_layout.h"
#include "nn/network.h"
#include "nn/rank_sums.h"
#include "optim/optimizer.h"
#include "parallel/model_parts.h"
#include "parallel/rank_group.h"
#include "parallel/step_cost.h"

namespace antiphon::parallel {

class DataParallelFront {
 public:
  /// Of the lowest `layers` (at least one) of `network`, which this rank holds whole.
  DataParallelFront(nn::Network& network, size_t layers, RankGroup& group);

  /// The first layer above them.
  size_t layers() const { return layers_; }
  /// Outputs of the highest of these layers for all frames, the same on all ranks, valid until the next Forward. The
  /// context stays valid until Backward.
  MatrixView Forward(const nn::ExecContext& context, ConstMatrixView x, nn::Workspace& ws);

  /// Tells a simulated cluster of the products that Forward computed. Backward does so itself.
  void CountForward(nn::Workspace& ws) const;

  /// Half each of a sum over the ranks of which every one gets the rows of its own frames: `part` is this rank's
  /// summand of the derivative with respect to these outputs, all frames of it. Other work may be done between the two.
  void SendDerivative(ConstMatrixView part);
  ConstMatrixView SumDerivative(ConstMatrixView part, nn::Workspace& ws);
  /// The rows of its own frames of a derivative that all ranks have.
  ConstMatrixView OwnRows(ConstMatrixView derivative, nn::Workspace& ws) const;
  /// `context`: of all frames; `derivative`: of its own. `sink` gets the sums of the gradients over the ranks, from the
  /// top layer down. If it is `optimizer` and works on factors, it preconditions this rank's own before.
  void Backward(const nn::ExecContext& context, ConstMatrixView derivative, nn::Workspace& ws, nn::GradientSink& sink,
                optim::Optimizer& optimizer);

  std::string Describe() const;
  /// Of the gradients that are summed.
  size_t copy_bytes() const { return gradients_.size() * sizeof(float); }

 private:
  class GroupSums : public nn::RankSums {
   public:
    explicit GroupSums(RankGroup& group) : group_(group) {}
    void Sum(std::span<double> values) override { group_.AllReduce(values); }

   private:
    RankGroup& group_;
  };

  void Deal(const nn::ExecContext& context, int64_t rows);
  nn::OutputRange Share(int position) const { return EvenRange(dealt_, position, group_.size()); }
  int64_t RowsOf(int position, int64_t all) const;
  void PickRows(ConstMatrixView all, int position, float* to) const;
  ConstMatrixView OwnInput(ConstMatrixView x, nn::Workspace& ws) const;
  void Gather(ConstMatrixView mine, MatrixView all);
  void Count(double flops_per_row, int64_t rows) const;
  nn::Workspace& Room(nn::Workspace& ws) const { return ws.Child(network_.num_layers()); }

  nn::Network& network_;
  size_t layers_;
  RankGroup& group_;
  StepCost cost_;
  GroupSums sums_;
  // Of the minibatch under way: what is dealt to the ranks in runs (streams, or single frames), and what this rank
  // sees of it.
  int dealt_ = 0;
  nn::ExecContext context_;
  SequenceLayout layout_;
  std::vector<float> gradients_;  // laid out as the network's values, as far as these layers go
  std::vector<float> message_;
};

}  // namespace antiphon::parallel
