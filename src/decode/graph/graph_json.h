// graph.json: what a graph was built from, and the checksums of the files beside it.
//
// Format 1: one HCLG.fst; format 2: HCL and G of a graph that searches put together.
// Threads: pure functions. Errors: InputError for what is no such description, or of a newer format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "decode/graph/graph.h"
#include "decode/graph/graph_builder.h"
#include "hmm/hmm_model.h"
#include "hmm/lexicon.h"

namespace antiphon::decode {

inline constexpr int kStaticFormat = 1;
inline constexpr int kPartsFormat = 2;

struct GraphJson {
  int format = kStaticFormat;
  GraphInfo info;
  std::map<std::string, std::string> checksums;  // by file; in format 1 of HCLG.fst alone
};

GraphJson ParseGraphJson(const std::string& text);
std::string ToText(const GraphJson& graph);

/// As files name them.
std::string HexChecksum(const std::filesystem::path& file);
/// InputError naming the file, if it is not the one that graph.json describes.
void RequireChecksum(const GraphJson& graph, const std::filesystem::path& folder, const std::string& file);

/// Of the transition probabilities.
std::string TransitionChecksum(const hmm::HmmModel& model);
/// What graph.json says of a graph for this model.
GraphInfo DescribeGraph(const hmm::HmmModel& model, const hmm::Lexicon& lexicon, const std::string& language_model,
                        const GraphBuildOptions& options);
/// words.txt.
std::string SymbolTable(const hmm::Lexicon& lexicon);

}  // namespace antiphon::decode
