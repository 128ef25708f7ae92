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

/// What a network's arcs may carry, and how its faults are said.
struct GraphLimits {
  int64_t num_labels = 0;       // of words: below this
  int64_t num_transitions = 0;  // transition-ids: below this
  int32_t loop = -1;            // label of arcs that may lead back to their own state; −1: none may
  const char* is_none = "";     // "the graph is no search network"
  const char* no_label = "";    // "a word is not in words.txt"
};

/// Throws InputError "<is_none>: what" unless a search can follow every arc, costs are numbers, and each of a state's
/// arcs stands on its side of emitting_begin, and every cycle takes a frame.
void CheckArcs(std::span<const GraphState> states, std::span<const GraphArc> arcs, int32_t start,
               const GraphLimits& limits);

}  // namespace antiphon::decode
