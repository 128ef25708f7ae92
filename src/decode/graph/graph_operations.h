// Steps of graph construction that OpenFst lacks.
#pragma once

#include <fst/fst-decl.h>

#include <cstdint>
#include <span>

namespace antiphon::decode {

/// Merges states with the same arcs and final cost (to a thousandth of a nat), from the ends towards the start, until
/// none are left. Between cycles that is all that minimisation finds, in near linear time.
void MergeEqualStates(fst::StdVectorFst* fst);

/// Input labels of the list (ascending) become epsilon.
void RemoveInputLabels(std::span<const int32_t> labels, fst::StdVectorFst* fst);

/// Joins an arc with the only arc of the state behind it where one of the two takes no input and one writes no output.
void RemoveEpsilonsLocally(fst::StdVectorFst* fst);

/// Largest |−log of the sum of a state's arc and final probabilities|; 0 for a stochastic transducer.
double LargestStochasticityError(const fst::StdVectorFst& fst);

}  // namespace antiphon::decode
