// Lattice-free MMI: how the reference fares among all that a denominator graph allows.
//
// With the weight of a path w = Π_t probability(arc)·exp(y_t(pdf-id)) over the graph's arcs, the loss is
//   −log Σ w over paths near the reference + log Σ w over all paths ≥ 0,
// where a path is near the reference if each of its frames has a pdf-id that the reference has within `tolerance`
// frames of it. Σ over all paths is one forward pass over the whole graph; a leaky state, through which a path may go
// from any state to any other at little probability between two frames, keeps paths alive that the graph would end.
// A reference that could be reached by leaks alone is none that the graph has, and cannot be learned by it.
//
// Shapes: y and gradients [T, pdf-ids]; y is taken as within ±30, as exp(y) is used directly. A constant added to all y
// of a frame changes nothing but rounding, and the gradient of each frame adds up to 0.
// Threads: pure function of its arguments, one scratch per thread. Errors: InputError for pdf-ids that the graph cannot
// have.
// Source: Povey et al., Purely sequence-trained neural networks for ASR based on lattice-free MMI, Interspeech 2016.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/options.h"
#include "decode/denominator.h"
#include "math/matrix.h"

namespace antiphon::decode {

struct LatticeFreeOptions {
  int tolerance = 5;
  double leaky = 1e-5;
  template <class V>
  void Visit(V& v) {
    v("tolerance", tolerance, Range{0, 100}, "lf-mmi: frames by which states may move from where they were aligned");
    v("leaky", leaky, Range{1e-12, 0.5}, "lf-mmi: probability of going on anywhere in the graph after a frame");
  }
};

/// The utterance's loss in nats; nothing if no path of the graph is near the reference. Overwrites `gradient`, unless
/// it is empty, by the loss's derivative by y; by 0 if there is no loss. `reference`: a pdf-id per frame.
std::optional<double> LatticeFreeLoss(const DenominatorGraph& graph, std::span<const int32_t> reference,
                                      ConstMatrixView y, const LatticeFreeOptions& options, MatrixView gradient);

}  // namespace antiphon::decode
