// A lattice of drawn words and costs, small enough that all of its paths can be looked at.
#pragma once

#include "base/random.h"
#include "decode/lattice/lattice.h"

namespace antiphon::decode {

// Layers of states; every arc leads to the next layer.
inline Lattice RandomLattice(uint64_t seed) {
  Rng rng(seed);
  Lattice lattice;
  constexpr int kLayers = 6, kWidth = 3;
  lattice.states.resize(kLayers * kWidth + 1);
  const auto connect = [&](int from, int to) {
    LatticeArc arc{to, static_cast<int32_t>(rng.Below(4)), {rng.Uniform(0, 3), rng.Uniform(0, 30)}, {}};
    arc.alignment = lattice.AddAlignment({{static_cast<int32_t>(1 + rng.Below(9))}});
    lattice.states[from].arcs.push_back(arc);
  };
  for (int w = 0; w < kWidth; ++w) connect(0, 1 + w);
  for (int l = 0; l + 1 < kLayers; ++l) {
    for (int a = 0; a < kWidth; ++a) {
      for (int b = 0; b < kWidth; ++b) connect(1 + l * kWidth + a, 1 + (l + 1) * kWidth + b);
    }
  }
  for (int w = 0; w < kWidth; ++w) {
    LatticeState& state = lattice.states[1 + (kLayers - 1) * kWidth + w];
    state.is_final = true;
    state.final_cost = {rng.Uniform(0, 1), 0.0};
  }
  return lattice;
}

}  // namespace antiphon::decode
