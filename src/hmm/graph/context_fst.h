// C: from phones to phones in context. Expands a transducer with phones on its input side (L∘G, or a transcript) so
// that its input labels stand for context windows.
//
// Labels: index into a list of ContextLabel; 0 is epsilon. With windows of three phones, the right one is read one
// phone late, so that a window follows when its right neighbour is known; at the end the right neighbour is 0.
#pragma once

#include <fst/fst-decl.h>

#include <cstdint>
#include <span>
#include <vector>

#include "hmm/hmm_model.h"

namespace antiphon::hmm {

/// What an input label after context expansion stands for: a window, a disambiguation phone, or (label 0) nothing.
struct ContextLabel {
  std::vector<int32_t> window;  // `width` phone ids, 0 at the edges; empty for the others
  int32_t disambiguation = 0;   // label of the disambiguation phone
  bool operator==(const ContextLabel&) const = default;
  auto operator<=>(const ContextLabel&) const = default;
};

/// Overwrites `out` and `labels`. `disambiguation` are the input labels that are no phones.
void ExpandContext(const fst::StdVectorFst& in, int width, std::span<const int32_t> disambiguation,
                   fst::StdVectorFst* out, std::vector<ContextLabel>* labels);

/// Windows that the model gives the same states become one label: relabels the input side of `fst` and shortens
/// `labels`.
void MergeEquivalentLabels(const HmmModel& model, fst::StdVectorFst* fst, std::vector<ContextLabel>* labels);

}  // namespace antiphon::hmm
