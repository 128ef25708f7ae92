// The path of a lattice that says what is likeliest place by place.
#pragma once

#include <span>

#include "decode/lattice/expected_alignment.h"
#include "decode/lattice/lattice.h"

namespace antiphon::decode {

/// The path with the fewest expected errors, when each place is asked by itself: what it says at a place counts as
/// wrong with the probability of all else there, a word between places as wrong. Of equal ones the cheapest. The
/// lattice must not be empty; `places` as ExpectedAlignment finds them.
LatticePath PathByPlaces(const Lattice& lattice, const LatticeWeights& weights, std::span<const WordPosteriors> places);

}  // namespace antiphon::decode
