// Products of a network's Gauss–Newton matrix with vectors, without forming the matrix.
//
// G·v = (1/N)·Σ_n J_nᵀ·H_n·J_n·v over the minibatch's frames, with J the derivative of the logits by the parameters and
// H = diag(y) − y·yᵀ that of softmax cross-entropy; positive semi-definite. J·v comes from a forward pass of
// derivatives (R-operator), Jᵀ from the ordinary backward pass. Elementwise layers, softmax, renorm and the like have
// symmetric derivatives, so that their backward pass serves as the forward one too.
// Units: v and the result are laid out as Network::values(). Passes run in scoring mode: no dropout, fixed statistics.
// Threads: one. Errors: UsageError for layers whose derivative is neither known nor symmetric.
// Source: Pearlmutter, Neural Computation 1994; Schraudolph, Neural Computation 2002; algorithms reference 1.19.
#pragma once

#include <span>

#include "nn/gradient_sink.h"
#include "nn/network.h"

namespace antiphon::optim {

class GaussNewton {
 public:
  explicit GaussNewton(nn::Network& network);

  /// Overwrites `product` with G·v for frames x [N, in_dim].
  void Product(Precision precision, ConstMatrixView x, std::span<const float> v, std::span<float> product);

 private:
  /// J·v for the last Forward with workspace_; [N, out_dim].
  MatrixView Tangent(const nn::ExecContext& context, int64_t frames, std::span<const float> v);
  bool affine(size_t layer) const;

  nn::Network& network_;
  size_t lowest_ = 0;  // layer with parameters
  nn::Workspace workspace_;
  Matrix tangents_[2];  // below and above a layer
};

}  // namespace antiphon::optim
