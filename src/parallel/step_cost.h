// Operations that a training step takes, layer by layer: what strategies tell simulated clusters.
//
// A layer's cost is that of its matrix products: two operations per weight and frame forwards, two for the gradient and
// two for the derivative passed down. Elementwise work and the update are left out. A layer that uses its weights at
// several places (convolution) costs more than this says.
#pragma once

#include <vector>

#include "nn/network.h"

namespace antiphon::parallel {

class StepCost {
 public:
  explicit StepCost(const nn::Network& network);
  /// Per frame; for all layers.
  double forward_flops() const { return forward_; }
  double forward_flops(size_t layer) const { return layers_.at(layer).forward; }
  /// Per frame; of one layer. The lowest layer that learns passes nothing down, those below it do nothing.
  double backward_flops(size_t layer) const { return layers_.at(layer).backward; }
  double total_flops() const;
  /// Of a product with the Gauss–Newton matrix, per frame: forward; two products per layer for the derivative along the
  /// vector (one in the lowest that has weights); backward.
  double curvature_flops() const;

 private:
  struct Flops {
    double forward = 0;
    double backward = 0;
  };
  std::vector<Flops> layers_;
  double forward_ = 0;
  double lowest_forward_ = 0;  // of the lowest layer that has products
};

}  // namespace antiphon::parallel
