// Determinisation that removes input epsilons on the way.
//
// Input strings stay, each by one path; weights of paths with equal labels are added in the log semiring, so that a
// stochastic transducer stays stochastic; output labels come as early as they are certain. Input epsilons of the result
// only carry output labels for which no arc with an input is left. Source: Mohri, Computational Linguistics 1997;
// Kaldi's fstdeterminizestar.
#pragma once

#include <fst/fst-decl.h>

#include <cstdint>

namespace antiphon::decode {

/// Overwrites `out`. Throws InputError if `in` is not functional (one input string with two output strings), which
/// missing disambiguation symbols cause, or if the result has more than max_states states.
void DeterminizeStar(const fst::StdVectorFst& in, int64_t max_states, fst::StdVectorFst* out);

}  // namespace antiphon::decode
