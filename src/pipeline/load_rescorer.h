// The larger language model of a recogniser, as its options name it: --rescore-arpa and --graph-arpa.
//
// Threads: const use of the result may be shared. Errors: UsageError if only one of the files is named; InputError
// naming the file.
#pragma once

#include <memory>
#include <string>

#include "decode/graph/graph.h"
#include "decode/lattice/lm_rescore.h"

namespace antiphon::pipeline {

/// Null if no file is named. Tells the log of words of the graph that a model lacks, and of a model that is not the one
/// that the graph was built with.
std::unique_ptr<const decode::LmRescorer> LoadRescorer(const std::string& rescore_arpa, const std::string& graph_arpa,
                                                       const decode::Graph& graph);

}  // namespace antiphon::pipeline
