// The words with the fewest expected errors among all hypotheses of a lattice, rather than those of the likeliest path.
//
// From the likeliest path on, each place takes what most of the probability says there, until no place changes: the
// expected number of errors falls with every turn. What that gives may be no path of the lattice; the path that says
// the likeliest place by place is the result, so that it has times and an alignment like every other.
//
// Source: Xu, Povey, Mangu, Zhu, Minimum Bayes risk decoding and system combination, Computer Speech and Language 2011.
#pragma once

#include "decode/lattice/lattice.h"

namespace antiphon::decode {

/// Probabilities are of costs weighed by `weights`, times its risk_scale (above 0). The lattice must be determinised
/// and not empty.
LatticePath MinimumBayesRiskPath(const Lattice& lattice, const LatticeWeights& weights);

/// The result by `weights`: MinimumBayesRiskPath if they have a risk scale, else BestPath.
LatticePath ChosenPath(const Lattice& lattice, const LatticeWeights& weights);

}  // namespace antiphon::decode
