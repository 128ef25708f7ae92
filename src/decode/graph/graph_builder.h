// Builds the search network: HCLG = self-loops(min(rm-ε(det(H ∘ context(min(det(L ∘ G)))))))
//
//   L lexicon with disambiguation symbols, G language model or grammar, context expansion to the windows that the tree
//   asks about (windows with the same states shared), H transition-ids. All determinisation is in the log semiring.
//
// Threads: pure function. Memory: a few hundred bytes per arc of the result while it runs.
// Errors: InputError for a grammar that cannot be determinised.
// Source: Mohri, Pereira, Riley, Speech recognition with weighted finite-state transducers, 2008.
#pragma once

#include <fst/fst-decl.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/options.h"
#include "decode/graph/graph.h"
#include "hmm/graph/pronunciation_model.h"
#include "hmm/hmm_model.h"
#include "hmm/lexicon.h"

namespace antiphon::decode {

struct GraphBuildOptions {
  double self_loop_scale = -1;
  double unknown_words = 0;
  int64_t max_states = 100000000;

  template <class V>
  void Visit(V& v) {
    v("self-loop-scale", self_loop_scale, Range{-1.0, 10.0},
      "weight of the self-loops' probabilities; below 0: as the model was trained for, 1 for chain models, 0.1 for "
      "others");
    v("unknown-words", unknown_words, Range{0, 0.5},
      "probability, where the language model has forgotten all before, of a word that the lexicon lacks: heard as "
      "<UNK> with phones that look like a word's (0.04 for 20,000 words); 0: none");
    v("max-states", max_states, Range{1, 2e9}, "give up beyond so many states");
  }
};

/// The weight that the options mean for this model.
double SelfLoopScale(const GraphBuildOptions& options, const hmm::HmmModel& model);

/// What graphs of both kinds say: `grammar`, and <UNK> in it if the options ask for unknown words (unknown_words.h).
fst::StdVectorFst WithUnknownWord(const hmm::Lexicon& lexicon, const GraphBuildOptions& options,
                                  fst::StdVectorFst grammar);

/// `grammar` has the lexicon's word ids on both sides, backoff_word() : ε on back-off arcs. Overwrites `graph`; its
/// arcs are sorted by input label, and no cycle of them lacks input. `pronunciations`: of this lexicon, in place of its
/// own probabilities; null: none.
void BuildGraphFst(const hmm::HmmModel& model, const hmm::Lexicon& lexicon, const fst::StdVectorFst& grammar,
                   const GraphBuildOptions& options, fst::StdVectorFst* graph,
                   const hmm::PronunciationModel* pronunciations = nullptr);

/// The same without words: from a transducer with phones on its input side, some of which (`disambiguation`) are none.
void BuildPhoneGraphFst(const hmm::HmmModel& model, const fst::StdVectorFst& phones,
                        std::span<const int32_t> disambiguation, const GraphBuildOptions& options,
                        fst::StdVectorFst* graph);

/// Writes the folder that Graph::Load reads. `language_model` says where the grammar came from.
void SaveGraph(const fst::StdVectorFst& graph, const hmm::HmmModel& model, const hmm::Lexicon& lexicon,
               const std::string& language_model, const GraphBuildOptions& options,
               const std::filesystem::path& folder);

/// The same in memory, for tests and small tasks.
Graph GraphFromFst(const fst::StdVectorFst& graph, const hmm::HmmModel& model, const hmm::Lexicon& lexicon);

}  // namespace antiphon::decode
