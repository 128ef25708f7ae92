#include "decode/graph/graph_arc.h"

#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"

namespace antiphon::decode {
namespace {

// Whether a cycle of arcs takes no frame. Arcs must lead to states. Those with the label `loop` that lead back to their
// own state do not count.
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

}  // namespace

void CheckArcs(std::span<const GraphState> states, std::span<const GraphArc> arcs, int32_t start,
               const GraphLimits& limits) {
  const auto fail = [&](const char* what) { Throw<InputError>("{}: {}", limits.is_none, what); };
  const auto num_states = static_cast<int64_t>(states.size());
  if (start < 0 || start >= num_states) fail("it has no start state");
  for (const GraphState& s : states) {
    if (s.epsilon_begin > s.emitting_begin || s.emitting_begin > s.end || s.end > arcs.size()) {
      fail("arcs out of range");
    }
    if (std::isnan(s.final_cost) || s.final_cost == -std::numeric_limits<float>::infinity()) {
      fail("a final cost is not a number");
    }
    for (uint32_t a = s.epsilon_begin; a < s.end; ++a) {
      const GraphArc& arc = arcs[a];
      if (arc.next_state < 0 || arc.next_state >= num_states) fail("an arc leads to no state");
      if (arc.word < 0 || arc.word >= limits.num_labels) fail(limits.no_label);
      if (arc.transition_id < 0 || arc.transition_id >= limits.num_transitions) {
        fail("a transition-id is not the model's");
      }
      if ((arc.transition_id == 0) != (a < s.emitting_begin)) fail("arcs are not sorted");
      if (!std::isfinite(arc.cost)) fail("a cost is not a finite number");
    }
  }
  if (HasEpsilonCycle(states, arcs, limits.loop)) {
    fail("a cycle of its arcs takes no frame, which a search would follow for ever");
  }
}

}  // namespace antiphon::decode
