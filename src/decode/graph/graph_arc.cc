#include "decode/graph/graph_arc.h"

#include <vector>

namespace antiphon::decode {

bool HasEpsilonCycle(std::span<const GraphState> states, std::span<const GraphArc> arcs, int32_t loop) {
  // Takes away, again and again, states that no epsilon arc leads to any more; those on a cycle stay.
  std::vector<uint32_t> incoming(states.size(), 0);
  size_t left = 0;
  const auto for_each = [&](size_t s, const auto& visit) {
    for (uint32_t a = states[s].epsilon_begin; a < states[s].emitting_begin; ++a) {
      const GraphArc& arc = arcs[a];
      if (loop < 0 || arc.word != loop || static_cast<size_t>(arc.next_state) != s) visit(arc);
    }
  };
  for (size_t s = 0; s < states.size(); ++s) {
    for_each(s, [&](const GraphArc& arc) {
      ++incoming[static_cast<size_t>(arc.next_state)];
      ++left;
    });
  }
  std::vector<size_t> free;
  for (size_t s = 0; s < states.size(); ++s) {
    if (incoming[s] == 0) free.push_back(s);
  }
  while (!free.empty()) {
    const size_t state = free.back();
    free.pop_back();
    for_each(state, [&](const GraphArc& arc) {
      --left;
      if (--incoming[static_cast<size_t>(arc.next_state)] == 0) free.push_back(static_cast<size_t>(arc.next_state));
    });
  }
  return left > 0;
}

}  // namespace antiphon::decode
