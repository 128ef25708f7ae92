#include "decode/graph/graph.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "decode/graph/graph_parts.h"

namespace antiphon::decode {

Graph::Graph(std::vector<GraphState> states, std::vector<GraphArc> arcs, int32_t start, std::vector<std::string> words,
             std::vector<int32_t> pdf_of_transition)
    : states_(std::move(states)),
      start_(start),
      words_(std::move(words)),
      pdf_of_transition_(std::move(pdf_of_transition)) {
  auto owned = std::make_shared<const std::vector<GraphArc>>(std::move(arcs));
  arcs_ = *owned;
  owner_ = std::move(owned);
  for (const int32_t pdf : pdf_of_transition_) num_pdfs_ = std::max(num_pdfs_, pdf + 1);
  Check();
}

Graph::Graph(std::shared_ptr<const GraphParts> parts, std::vector<std::string> words,
             std::vector<int32_t> pdf_of_transition)
    : parts_(std::move(parts)), words_(std::move(words)), pdf_of_transition_(std::move(pdf_of_transition)) {
  for (const int32_t pdf : pdf_of_transition_) num_pdfs_ = std::max(num_pdfs_, pdf + 1);
}

Graph Graph::WithParts(std::shared_ptr<const GraphParts> parts, std::shared_ptr<const hmm::Lexicon> lexicon,
                       std::string language_model) const {
  CHECK(parts_ != nullptr && lexicon != nullptr);
  Graph other = *this;
  other.parts_ = std::move(parts);
  other.lexicon_ = std::move(lexicon);
  other.info_.language_model = std::move(language_model);
  other.words_.clear();
  for (int32_t w = 0; w <= other.lexicon_->num_words(); ++w) other.words_.push_back(other.lexicon_->Word(w));
  return other;
}

std::vector<bool> Graph::SaidWords() const {
  if (parts_ != nullptr) return parts_->words().SaidWords(static_cast<int32_t>(words_.size()) - 1);
  std::vector<bool> said(words_.size(), false);
  for (const GraphArc& arc : arcs_) said[static_cast<size_t>(arc.word)] = true;
  return said;
}

void Graph::Check() const {
  const auto fail = [](const char* what) { Throw<InputError>("the graph is no search network: {}", what); };
  const auto num_states = static_cast<int64_t>(states_.size());
  if (start_ < 0 || start_ >= num_states) fail("it has no start state");
  for (const GraphState& s : states_) {
    if (s.epsilon_begin > s.emitting_begin || s.emitting_begin > s.end || s.end > arcs_.size())
      fail("arcs out of range");
    if (std::isnan(s.final_cost) || s.final_cost == -std::numeric_limits<float>::infinity()) {
      fail("a final cost is not a number");
    }
    for (uint32_t a = s.epsilon_begin; a < s.end; ++a) {
      const GraphArc& arc = arcs_[a];
      if (arc.next_state < 0 || arc.next_state >= num_states) fail("an arc leads to no state");
      if (arc.word < 0 || static_cast<size_t>(arc.word) >= words_.size()) fail("a word is not in words.txt");
      if (arc.transition_id < 0 || static_cast<size_t>(arc.transition_id) >= pdf_of_transition_.size()) {
        fail("a transition-id is not the model's");
      }
      if ((arc.transition_id == 0) != (a < s.emitting_begin)) fail("arcs are not sorted");
      if (!std::isfinite(arc.cost)) fail("a cost is not a finite number");
    }
  }
  if (HasEpsilonCycle(states_, arcs_)) fail("a cycle of its arcs takes no frame, which a search would follow for ever");
}

}  // namespace antiphon::decode
