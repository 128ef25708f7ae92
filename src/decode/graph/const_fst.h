// The file of a graph, HCLG.fst, taken apart without trusting it.
//
// OpenFst's "const" format with memory alignment, as SaveGraph writes it: a header, the states, the arcs of all states
// one after the other. OpenFst's own reader maps what the header promises; here every size is held against the file's
// before anything is read through it, so that a file that was cut short or changed is an error and no fault of the
// program. What the arcs say is checked by Graph.
//
// Threads: pure functions. Errors: InputError saying what does not fit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "decode/graph/graph_arc.h"

namespace antiphon::decode {

/// Views into the bytes they were read from. States own consecutive pieces of `arcs`, in their order, and all of it.
struct ConstFst {
  /// As in the file.
  struct State {
    float final_cost;
    uint32_t first_arc;
    uint32_t num_arcs;
    uint32_t num_input_epsilons;
    uint32_t num_output_epsilons;
  };
  int64_t start = -1;
  std::span<const State> states;
  std::span<const GraphArc> arcs;
};

/// `file` begins at a multiple of 16 bytes, as mapped files do.
ConstFst ParseConstFst(std::span<const std::byte> file);

/// Its states as searches read them.
std::vector<GraphState> StatesOf(const ConstFst& fst);

}  // namespace antiphon::decode
