// Walking through a lattice: what an arc costs by the weights, and a path put together arc by arc.
#pragma once

#include <limits>

#include "decode/lattice/lattice.h"

namespace antiphon::decode {

inline constexpr double kUnreached = std::numeric_limits<double>::infinity();

inline double ArcCost(const LatticeArc& arc, const LatticeWeights& w) {
  return arc.cost.Total(w.acoustic_scale) + (arc.word != 0 ? w.word_penalty : 0.0);
}

inline double FinalCost(const LatticeState& state, const LatticeWeights& w) {
  return state.is_final ? state.final_cost.Total(w.acoustic_scale) : kUnreached;
}

inline void Append(const Lattice& lattice, AlignmentRange range, LatticePath& path) {
  const auto ids = lattice.Alignment(range);
  path.alignment.insert(path.alignment.end(), ids.begin(), ids.end());
}

inline void AppendArc(const Lattice& lattice, const LatticeArc& arc, LatticePath& path) {
  if (arc.word != 0) path.words.push_back(arc.word);
  path.cost = path.cost + arc.cost;
  Append(lattice, arc.alignment, path);
}

inline void AppendFinal(const Lattice& lattice, const LatticeState& state, LatticePath& path) {
  path.cost = path.cost + state.final_cost;
  Append(lattice, state.final_alignment, path);
}

}  // namespace antiphon::decode
