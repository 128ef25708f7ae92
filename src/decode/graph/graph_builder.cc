#include "decode/graph/graph_builder.h"

#include <array>
#include <chrono>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "decode/graph/determinize_star.h"
#include "decode/graph/graph_operations.h"
#include "decode/graph/unknown_words.h"
#include "hmm/graph/context_fst.h"
#include "hmm/graph/hmm_fst.h"
#include "hmm/graph/lexicon_fst.h"
#include "hmm/graph/openfst.h"

namespace antiphon::decode {
namespace {

using Fst = fst::StdVectorFst;

class Progress {
 public:
  void Done(const char* step, const Fst& fst) {
    const auto now = std::chrono::steady_clock::now();
    size_t arcs = 0;
    for (int s = 0; s < fst.NumStates(); ++s) arcs += fst.NumArcs(s);
    log::Debug("{}: {} states, {} arcs, {:.1f} s", step, fst.NumStates(), arcs,
               std::chrono::duration<double>(now - start_).count());
    start_ = now;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void RequireNotEmpty(const Fst& fst) {
  if (fst.Start() == fst::kNoStateId || fst.NumStates() == 0) {
    throw InputError("the search graph accepts nothing: no sentence of the language model can be pronounced");
  }
}

// det(L ∘ G), minimal; input phones and `disambiguation`.
void BuildLg(const hmm::Lexicon& lexicon, const hmm::PronunciationModel* pronunciations, const Fst& grammar,
             const GraphBuildOptions& options, std::vector<int32_t>* disambiguation, Progress& progress, Fst* lg) {
  Fst l;
  *disambiguation = hmm::BuildLexiconFst(lexicon, true, &l, pronunciations);
  if (options.unknown_words > 0) {
    disambiguation->push_back(disambiguation->back() + 1);
    MarkUnknownWord(lexicon, std::array{lexicon.unknown_word()}, disambiguation->back(), &l);
  }
  Fst g = WithUnknownWord(lexicon, options, grammar);
  fst::ArcSort(&g, fst::ILabelCompare<fst::StdArc>());
  Fst composed;
  fst::Compose(l, g, &composed);
  RequireNotEmpty(composed);
  progress.Done("L∘G", composed);
  DeterminizeStar(composed, options.max_states, lg);
  progress.Done("det(L∘G)", *lg);
  MergeEqualStates(lg);
  progress.Done("min(det(L∘G))", *lg);
  if (options.unknown_words > 0) SpellUnknownWord(lexicon, disambiguation->back(), lg);
}

}  // namespace

double SelfLoopScale(const GraphBuildOptions& options, const hmm::HmmModel& model) {
  if (options.self_loop_scale >= 0) return options.self_loop_scale;
  return model.topology().IsChain() ? 1.0 : 0.1;
}

Fst WithUnknownWord(const hmm::Lexicon& lexicon, const GraphBuildOptions& options, Fst grammar) {
  if (options.unknown_words > 0) AddUnknownWord(lexicon, options.unknown_words, &grammar);
  return grammar;
}

void BuildGraphFst(const hmm::HmmModel& model, const hmm::Lexicon& lexicon, const Fst& grammar,
                   const GraphBuildOptions& options, Fst* graph, const hmm::PronunciationModel* pronunciations) {
  Progress progress;
  std::vector<int32_t> disambiguation;
  Fst lg;
  BuildLg(lexicon, pronunciations, grammar, options, &disambiguation, progress, &lg);
  BuildPhoneGraphFst(model, lg, disambiguation, options, graph);
}

void BuildPhoneGraphFst(const hmm::HmmModel& model, const Fst& phones, std::span<const int32_t> disambiguation,
                        const GraphBuildOptions& options, Fst* graph) {
  Progress progress;
  Fst in_context;
  std::vector<hmm::ContextLabel> labels;
  hmm::ExpandContext(phones, model.context_width(), disambiguation, &in_context, &labels);
  hmm::MergeEquivalentLabels(model, &in_context, &labels);
  fst::ArcSort(&in_context, fst::ILabelCompare<fst::StdArc>());
  progress.Done("context expansion", in_context);
  std::vector<int32_t> no_input;
  {
    Fst h, composed;
    no_input = hmm::BuildHmmFst(model, labels, &h);
    fst::Compose(h, in_context, &composed);
    in_context.DeleteStates();
    progress.Done("H∘C∘L∘G", composed);
    DeterminizeStar(composed, options.max_states, graph);
  }
  RequireNotEmpty(*graph);
  progress.Done("det(H∘C∘L∘G)", *graph);
  RemoveInputLabels(no_input, graph);
  RemoveEpsilonsLocally(graph);
  MergeEqualStates(graph);
  progress.Done("min(det(H∘C∘L∘G))", *graph);
  hmm::AddSelfLoops(model, SelfLoopScale(options, model), graph);
  fst::ArcSort(graph, fst::ILabelCompare<fst::StdArc>());
  progress.Done("with self-loops", *graph);
}

Graph GraphFromFst(const Fst& graph, const hmm::HmmModel& model, const hmm::Lexicon& lexicon) {
  std::vector<GraphState> states;
  std::vector<GraphArc> arcs;
  for (int s = 0; s < graph.NumStates(); ++s) {
    GraphState& state = states.emplace_back();
    state.epsilon_begin = static_cast<uint32_t>(arcs.size());
    state.emitting_begin = state.epsilon_begin + static_cast<uint32_t>(graph.NumInputEpsilons(s));
    for (fst::ArcIterator<Fst> it(graph, s); !it.Done(); it.Next()) {
      const fst::StdArc& arc = it.Value();
      arcs.push_back({arc.ilabel, arc.olabel, arc.weight.Value(), arc.nextstate});
    }
    state.end = static_cast<uint32_t>(arcs.size());
    state.final_cost = graph.Final(s).Value();
  }
  std::vector<std::string> words;
  for (int32_t w = 0; w <= lexicon.num_words(); ++w) words.push_back(lexicon.Word(w));
  std::vector<int32_t> pdfs(static_cast<size_t>(model.transitions().num_transition_ids()) + 1, 0);
  for (size_t t = 1; t < pdfs.size(); ++t) pdfs[t] = model.transitions().Pdf(static_cast<int32_t>(t));
  return Graph(std::move(states), std::move(arcs), graph.Start(), std::move(words), std::move(pdfs));
}

}  // namespace antiphon::decode
