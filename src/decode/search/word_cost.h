// What it usually costs to say a word in a graph: from where the word before has been given to where this one has.
//
// The median over the places where the graph gives the word of the cheapest way there; silence and the probabilities of
// pronunciations and transitions are in it, acoustic costs are not. Of a graph that searches put together it is what
// the language model and the cheapest pronunciation cost. Units: nats. Not below 0. Threads: pure function.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "decode/graph/graph.h"

namespace antiphon::decode {

/// By word id, for those of `words` that the graph gives.
std::map<int32_t, float> UsualCosts(const Graph& graph, const std::set<int32_t>& words);

}  // namespace antiphon::decode
