#include "decode/graph/graph_operations.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "hmm/graph/openfst.h"

namespace antiphon::decode {
namespace {

using Arc = fst::StdArc;

}  // namespace

void RemoveInputLabels(std::span<const int32_t> labels, fst::StdVectorFst* fst) {
  for (int state = 0; state < fst->NumStates(); ++state) {
    for (fst::MutableArcIterator<fst::StdVectorFst> it(fst, state); !it.Done(); it.Next()) {
      if (!std::binary_search(labels.begin(), labels.end(), it.Value().ilabel)) continue;
      Arc arc = it.Value();
      arc.ilabel = 0;
      it.SetValue(arc);
    }
  }
}

void RemoveEpsilonsLocally(fst::StdVectorFst* fst) {
  const auto only_arc = [&](int state) -> const Arc* {
    if (fst->NumArcs(state) != 1 || fst->Final(state) != Arc::Weight::Zero()) return nullptr;
    fst::ArcIterator<fst::StdVectorFst> it(*fst, state);
    return &it.Value();
  };
  for (int state = 0; state < fst->NumStates(); ++state) {
    for (fst::MutableArcIterator<fst::StdVectorFst> it(fst, state); !it.Done(); it.Next()) {
      Arc arc = it.Value();
      bool changed = false;
      // Bounded, in case of a cycle.
      for (int joined = 0; joined < 16; ++joined) {
        const Arc* const next = arc.nextstate == state ? nullptr : only_arc(arc.nextstate);
        if (next == nullptr || (arc.ilabel != 0 && next->ilabel != 0) || (arc.olabel != 0 && next->olabel != 0)) break;
        arc = Arc(arc.ilabel + next->ilabel, arc.olabel + next->olabel, fst::Times(arc.weight, next->weight),
                  next->nextstate);
        changed = true;
      }
      if (changed) it.SetValue(arc);
    }
  }
  fst::Connect(fst);
}

double LargestStochasticityError(const fst::StdVectorFst& fst) {
  double largest = 0.0;
  for (int state = 0; state < fst.NumStates(); ++state) {
    double sum = std::exp(-fst.Final(state).Value());
    for (fst::ArcIterator<fst::StdVectorFst> it(fst, state); !it.Done(); it.Next()) {
      sum += std::exp(-static_cast<double>(it.Value().weight.Value()));
    }
    largest = std::max(largest, std::abs(std::log(sum)));
  }
  return largest;
}

}  // namespace antiphon::decode
