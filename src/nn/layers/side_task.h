// How a second head (side_task.cc) learns, whatever it learns: the same for the layer and for those who put it into a
// network.
#pragma once

#include "base/options.h"
#include "nn/layers/largest_dim.h"

namespace antiphon::nn {

struct SideHeadOptions {
  double weight = 0.3;
  int hidden_dim = 64;
  bool adversarial = false;
  double most = 1.0;
  double gamma = 10.0;
  template <class V>
  void Visit(V& v) {
    VisitStrength(v);
    VisitAdversarial(v);
  }
  template <class V>
  void VisitAdversarial(V& v) {
    v("adversarial", adversarial, "the hidden layers unlearn the task instead: gradient reversal");
  }
  /// All else.
  template <class V>
  void VisitStrength(V& v) {
    v("weight", weight, Range{0, 1e6}, "of its loss beside the senones'");
    v("hidden-dim", hidden_dim, Range{0, kLargestDim}, "hidden units of the head; 0: none");
    v("most", most, Range{-1e6, 1e6}, "adversarial: factor on the reversed gradient at the end of the run");
    v("gamma", gamma, Range{0, 1e6}, "adversarial: how fast it rises from 0: 2/(1 + exp(-gamma·p)) - 1; 0: at once");
  }
};

}  // namespace antiphon::nn
