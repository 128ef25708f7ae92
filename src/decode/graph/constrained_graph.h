// A graph's paths that say given words: what a search finds the reference's best path in, with the graph's own costs.
//
// Threads: pure function. Memory: a state of the result per state of the graph and place in the words that it is
// reached at.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "decode/graph/graph.h"

namespace antiphon::decode {

/// Nothing if the graph has no path for the words.
std::optional<Graph> ConstrainToWords(const Graph& graph, std::span<const int32_t> words);

}  // namespace antiphon::decode
