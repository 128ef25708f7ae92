// A network whose affine layers are divided by rows over a group of ranks: a model larger than one device.
//
// Every rank computes its rows of each affine layer; the group gathers them, so that what lies between (activations,
// normalisation) is computed by all alike. Backward, a rank's part of dx is W_rᵀ·δ_r, summed over the group. With
// `sparse` links a unit sees the units of its own rank and `links` others of each remote one; the other weights stay 0.
// Layers with fewer outputs than ranks and those that are not affine are held by all.
// Exchanged per minibatch of N frames: 4·N·width bytes per affine layer and rank forward, as many numbers summed
// backward.
// Determinism: forward as unstriped (rows' products do not depend on each other); sums over ranks in the order of the
// group. Threads: one. Source: Dean et al., NIPS 2012; algorithms reference 1.20.
#pragma once

#include <memory>
#include <vector>

#include "parallel/affine_stripe.h"
#include "parallel/step_cost.h"

namespace antiphon::parallel {

class StripedNetwork {
 public:
  /// `links` < 0: all remote units. `seed` draws them, the same in all replicas.
  StripedNetwork(nn::Network& whole, RankGroup& group, const Config& optimizer, int links, uint64_t seed);

  /// Logits [N, out_dim] of the whole network, the same on all ranks of the group.
  MatrixView Forward(const nn::ExecContext& context, ConstMatrixView x, nn::Workspace& ws);
  /// The gradients of the rank's stripes go to `stripe_sink(i)`, those of layers held by all to `common`.
  void Backward(const nn::ExecContext& context, ConstMatrixView dy, nn::Workspace& ws,
                const std::function<nn::GradientSink&(size_t stripe)>& stripe_sink, nn::GradientSink& common);

  size_t num_stripes() const { return stripes_.size(); }
  AffineStripe& stripe(size_t i) { return *stripes_[i]; }
  const AffineStripe& stripe(size_t i) const { return *stripes_[i]; }
  bool is_striped(size_t layer) const { return by_layer_[layer] != nullptr; }
  /// Puts the masked weights of this rank's stripes back to 0; to be called after every update.
  void ApplyMasks();
  /// All ranks' stripes into `values`, laid out as the network's. Collective in the group.
  void Share(std::span<float> values);
  /// Weights and biases that this rank trains.
  int64_t num_own_parameters() const;

 private:
  AffineStripe* StripeOf(size_t layer) const { return by_layer_[layer]; }
  /// Tells a simulated cluster of this rank's share of a layer's products.
  void Count(size_t layer, double flops_per_frame, int64_t frames) const;

  nn::Network& whole_;
  RankGroup& group_;
  StepCost cost_;
  std::vector<std::unique_ptr<AffineStripe>> stripes_;
  std::vector<AffineStripe*> by_layer_;           // null: held by all
  std::vector<std::vector<uint8_t>> masks_;       // by stripe, one byte per weight; empty: none
  std::vector<nn::Workspace> stripe_workspaces_;  // by layer
  std::vector<float> message_;
};

}  // namespace antiphon::parallel
