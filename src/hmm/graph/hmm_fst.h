// H: from transition-ids to phones in context, and the self-loops that are added when all else is done.
//
// H holds no self-loops, which keeps det(H∘C∘L∘G) small; AddSelfLoops puts one on each state behind the arc that enters
// it, which gives the order of transition-ids that TransitionModel describes. Costs are −log: H carries P(transition |
// no self-loop); AddSelfLoops adds the self-loops' and the leaving probabilities, times self_loop_scale.
#pragma once

#include <fst/fst-decl.h>

#include <cstdint>
#include <span>
#include <vector>

#include "hmm/graph/context_fst.h"
#include "hmm/hmm_model.h"

namespace antiphon::hmm {

/// Overwrites `fst`: closed under repetition, input transition-ids, output context labels, arcs sorted by output. A
/// disambiguation label loops on the start state; its input labels follow the transition-ids and are returned,
/// ascending.
std::vector<int32_t> BuildHmmFst(const HmmModel& model, std::span<const ContextLabel> labels, fst::StdVectorFst* fst);

/// `fst` has transition-ids without self-loops on its input side, and no disambiguation labels any more.
void AddSelfLoops(const HmmModel& model, double self_loop_scale, fst::StdVectorFst* fst);

}  // namespace antiphon::hmm
