// Products of a network's Gauss–Newton matrix with vectors, without forming the matrix.
//
// G·v = (1/W)·Σ_n w_n·J_nᵀ·H_n·J_n·v over the minibatch's frames with their weights, W = Σ w_n, with J the derivative
// of the logits by the parameters and H = diag(y) − y·yᵀ that of softmax cross-entropy; positive semi-definite. J·v
// comes from a forward pass of derivatives (Network::Tangent, the R-operator), Jᵀ from the ordinary backward pass.
// Recurrent layers begin with the states in the workspace, which count as constants, as in truncated back-propagation;
// derivatives that go back in time are not limited here, or the product would not be linear in v.
// Units: v and the result are laid out as Network::values(). Passes run in scoring mode: no dropout, fixed statistics.
// Threads: one. Errors: UsageError for layers that have no tangent.
// Source: Pearlmutter, Neural Computation 1994; Schraudolph, Neural Computation 2002; algorithms reference 1.19.
#pragma once

#include <span>

#include "nn/gradient_sink.h"
#include "nn/network.h"

namespace antiphon::optim {

class GaussNewton {
 public:
  explicit GaussNewton(nn::Network& network);

  /// Overwrites `product` with G·v for frames x [N, in_dim]. `context`: precision, and how rows follow one another;
  /// `frame_weights`: of the output's rows, empty: all 1. The states in `ws` go on as in any forward pass.
  void Product(nn::ExecContext context, ConstMatrixView x, std::span<const float> frame_weights,
               std::span<const float> v, std::span<float> product, nn::Workspace& ws);

 private:
  nn::Network& network_;
};

}  // namespace antiphon::optim
