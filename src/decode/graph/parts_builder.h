// Builds the parts of a graph that searches put together (composition.h), and keeps them in a folder.
//
//   HCL = self-loops(min(rm-ε(det(H ∘ context(min(det(L)))))))      L writes which pronunciation was said
//   G   the language model as it is
//
// On disk such a graph is a folder: HCL.fst (OpenFst "const" file, mapped), pronunciations.safetensors (what its labels
// stand for, and probabilities of pauses where it was built with some), G.safetensors (mapped), words.txt, lexicon.txt
// and graph.json, all of which Graph::Load reads.
//
// Threads: pure functions. Errors: InputError for a grammar that cannot be determinised, and naming the file for a
// folder that is damaged.
#pragma once

#include <fst/fst-decl.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "decode/graph/graph.h"
#include "decode/graph/graph_builder.h"
#include "decode/graph/graph_parts.h"
#include "hmm/graph/pronunciation_model.h"
#include "hmm/hmm_model.h"
#include "hmm/lexicon.h"

namespace antiphon::decode {

/// `pronunciations`: of this lexicon; null: none. InputError for a model with windows of three phones: how often a
/// grammar backs off before the next phone is known has no bound there, so that det never ends.
LexiconGraph BuildLexiconGraph(const hmm::HmmModel& model, const hmm::Lexicon& lexicon,
                               const GraphBuildOptions& options,
                               const hmm::PronunciationModel* pronunciations = nullptr);

/// HCL as BuildLexiconGraph makes it, and G from `grammar`, which has the lexicon's word ids on both sides and
/// backoff_word() : ε on back-off arcs.
std::shared_ptr<const GraphParts> BuildGraphParts(const hmm::HmmModel& model, const hmm::Lexicon& lexicon,
                                                  fst::StdVectorFst grammar, const GraphBuildOptions& options,
                                                  const hmm::PronunciationModel* pronunciations = nullptr);

/// Writes the folder. `language_model` says where the grammar came from.
void SaveParts(const GraphParts& parts, const hmm::HmmModel& model, const hmm::Lexicon& lexicon,
               const hmm::PronunciationModel* pronunciations, const std::string& language_model,
               const GraphBuildOptions& options, const std::filesystem::path& folder);

/// Of a folder that Graph::Load has found to belong to the model; `lexicon` is that beside it.
LexiconGraph LoadLexiconGraph(const std::filesystem::path& folder, const hmm::HmmModel& model,
                              const hmm::Lexicon& lexicon);
/// What it was built with, if it was with any.
std::optional<hmm::PronunciationModel> LoadPronunciationModel(const std::filesystem::path& folder);

/// In memory.
Graph GraphFromParts(std::shared_ptr<const GraphParts> parts, const hmm::HmmModel& model, const hmm::Lexicon& lexicon);

}  // namespace antiphon::decode
