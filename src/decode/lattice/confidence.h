// How sure each word of a hypothesis is: its posterior probability at its place among all hypotheses of the lattice.
//
// Each path of the lattice is aligned with the hypothesis by least edit distance, in expectation over paths; the
// confidence of a word is the posterior mass of paths that have the same word there (the statistics of minimum Bayes
// risk decoding). The probabilities are of costs weighed as given, times 1: acoustic scores keep their scale.
//
// Source: Xu, Povey, Mangu, Zhu, Minimum Bayes risk decoding and system combination, Computer Speech and Language 2011.
#pragma once

#include <span>
#include <vector>

#include "decode/lattice/lattice.h"

namespace antiphon::decode {

/// One value in [0, 1] per word of `hypothesis`. The lattice must be determinised and not empty.
std::vector<double> WordConfidences(const Lattice& lattice, const LatticeWeights& weights,
                                    std::span<const int32_t> hypothesis);

}  // namespace antiphon::decode
