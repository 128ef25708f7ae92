// States and arcs of a search network, as they lie in memory and in files.
#pragma once

#include <cstdint>
#include <span>

namespace antiphon::decode {

/// As OpenFst's standard arc lies in memory.
struct GraphArc {
  int32_t transition_id;
  int32_t word;
  float cost;
  int32_t next_state;
};

/// Arcs [epsilon_begin, emitting_begin) take no frame, [emitting_begin, end) take one.
struct GraphState {
  uint32_t epsilon_begin;
  uint32_t emitting_begin;
  uint32_t end;
  float final_cost;  // infinite unless final
};

/// Whether a cycle of arcs takes no frame. Arcs must lead to states. Arcs with the label `loop` that lead back to their
/// own state do not count; −1: all do.
bool HasEpsilonCycle(std::span<const GraphState> states, std::span<const GraphArc> arcs, int32_t loop = -1);

}  // namespace antiphon::decode
