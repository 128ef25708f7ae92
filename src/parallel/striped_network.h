// A network whose affine layers are divided by outputs over a group of ranks: a model larger than one device.
//
// Every rank holds and computes its outputs of each affine or linear layer, with the activation that the layer absorbs;
// the group gathers them, so that what lies between (normalisation, dropout) is computed by all alike. Backward, a
// rank's part of dx is W_rᵀ·δ_r, whose sum over the group goes to whoever needs it: only the columns of one's own if
// the layer below is divided too. It travels while the gradients of the weights are computed. The softmax of a divided
// output layer exchanges four numbers per frame. With sparse links a unit sees the units of its own rank and so many
// others of each remote one, the same for all units of a rank (sparse_links.h); the other weights stay 0, and only what
// is seen travels, unless a layer held by all (normalisation, dropout) lies between and wants everything. Layers with
// fewer outputs than ranks and those that are not affine (recurrent and convolutional ones, chains with a shortcut) are
// held, computed and trained by all alike; carried states lie in everybody's workspace. The lowest layers may be
// data-parallel instead, each rank computing its own frames (data_parallel_front.h). What a splice copied
// (time-delay layers) is added up again before it is sent. Exchanged per minibatch and divided layer of N rows:
// 4·N·width bytes received by each rank from the others together forward, as much backward (twice that if a layer held
// by all is below); with sparse links their part of it. Determinism: forward as undivided (outputs do not depend on
// each other); sums over ranks in the order of the group. Threads: one. Source: Dean et al., NIPS 2012; algorithms
// reference 1.20.
#pragma once

#include <optional>
#include <vector>

#include "nn/layer_traits.h"
#include "nn/loss.h"
#include "parallel/data_parallel_front.h"
#include "parallel/model_parts.h"
#include "parallel/rank_group.h"
#include "parallel/sparse_links.h"
#include "parallel/step_cost.h"
#include "parallel/striped_softmax.h"
#include "parallel/stripes.h"

namespace antiphon::parallel {

class StripedNetwork {
 public:
  /// `part` holds what `parts` gives this rank; `options` are those by which it was divided.
  StripedNetwork(nn::Network& part, const ModelParts& parts, RankGroup& group, const StripesOptions& options);

  /// Loss of a minibatch, the same on all ranks; its derivative stays here for Backward. `ws` as in Network::Forward.
  nn::LossResult Forward(const nn::ExecContext& context, ConstMatrixView x, const nn::LossTargets& targets,
                         nn::Workspace& ws);
  /// `optimizer`: as DataParallelFront::Backward has it.
  void Backward(const nn::ExecContext& context, nn::Workspace& ws, nn::GradientSink& sink, optim::Optimizer& optimizer);
  /// Logits [N, out_dim] of the whole network, the same on all ranks of the group.
  MatrixView Logits(const nn::ExecContext& context, ConstMatrixView x, nn::Workspace& ws);

  /// The lowest layers, if each rank computes them for its own frames.
  const std::optional<DataParallelFront>& front() const { return front_; }
  bool divided(size_t layer) const { return !held_[layer].all(); }
  /// Puts the masked weights of this rank back to 0.
  void ApplyMasks();
  /// Beside the network: masks, gradients that are summed.
  size_t copy_bytes() const;
  /// To be called after every update. A limit on a step's length sees each rank's part alone: where ranks took
  /// different shares of it (StepReport::max_change_scale), they take the layers that all hold from the first rank. So
  /// they do, with a warning, when a comparison finds that those layers came apart: machines of different kinds need
  /// not compute the same bits.
  void AfterUpdate(double change_scale);
  /// Values of the layers that all ranks hold and train alike.
  std::span<const std::span<float>> shared_values() const { return shared_; }
  /// All ranks get the first one's.
  void BroadcastShared();

 private:
  // A derivative on its way down.
  struct Descent {
    ConstMatrixView g;
    bool own_columns;       // g has only those that this rank computed
    bool own_rows = false;  // or the front's for this rank's frames
    size_t turn = 0;        // of two buffers
  };
  /// `gather_top`: a divided output layer's logits reach all ranks, else each has its own.
  MatrixView Outputs(const nn::ExecContext& context, ConstMatrixView x, bool gather_top, nn::Workspace& ws);
  void Gather(ConstMatrixView mine, size_t layer, MatrixView y);
  /// The divided layer that computes layer i: i itself, or the one below that absorbs it. None: held by all.
  std::optional<size_t> UnitOf(size_t layer) const;
  size_t lowest_striped() const { return front_ ? front_->layers() : 0; }
  bool top_divided() const { return divided(part_.num_layers() - 1); }
  bool is_splice(size_t layer) const { return nn::TraitsOf(part_, layer).splices; }
  void DrawLinks(int links);
  void FindShared();
  size_t LowestThatLearns();
  static MatrixView NextBuffer(int64_t rows, int64_t cols, Descent& descent, nn::Workspace& ws);
  /// Through divided layer `layer`, and the splice below it if there is one; returns the lowest layer passed.
  size_t PassDivided(const nn::ExecContext& context, size_t layer, nn::Workspace& ws, nn::GradientSink& sink,
                     Descent& descent);
  /// Tells a simulated cluster of products of this rank.
  void Count(double flops_per_row, int64_t rows) const;
  void GatherSeen(ConstMatrixView mine, size_t layer, MatrixView y);
  void SendColumns(ConstMatrixView part, size_t unit);
  void SumColumns(ConstMatrixView part, size_t unit, MatrixView sum);
  void SumSeen(ConstMatrixView part, size_t unit, MatrixView sum);

  nn::Network& part_;
  const ModelParts& parts_;
  RankGroup& group_;
  StepCost cost_;
  std::optional<DataParallelFront> front_;
  std::vector<nn::OutputRange> held_;        // by layer
  std::vector<std::vector<uint8_t>> masks_;  // by layer, one byte per input; empty: all are seen
  // By the layer whose outputs are seen; none: all of them travel.
  std::vector<std::optional<SparseLinks>> links_;
  std::vector<std::span<float>> shared_;  // of layers held by all
  int64_t updates_ = 0;
  bool warned_ = false;
  MatrixView derivative_;
  std::vector<float> message_;
};

}  // namespace antiphon::parallel
