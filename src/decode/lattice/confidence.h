// How sure each word of a hypothesis is: its posterior probability at its place among all hypotheses of the lattice
// (ExpectedAlignment says how places are found).
#pragma once

#include <span>
#include <vector>

#include "decode/lattice/lattice.h"

namespace antiphon::decode {

/// One value in [0, 1] per word of `hypothesis`. The lattice must be determinised and not empty.
std::vector<double> WordConfidences(const Lattice& lattice, const LatticeWeights& weights,
                                    std::span<const int32_t> hypothesis);

}  // namespace antiphon::decode
