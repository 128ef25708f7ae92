#include "decode/graph/graph.h"

#include <algorithm>
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
  CheckArcs(states_, arcs_, start_,
            {.num_labels = static_cast<int64_t>(words_.size()),
             .num_transitions = static_cast<int64_t>(pdf_of_transition_.size()),
             .is_none = "the graph is no search network",
             .no_label = "a word is not in words.txt"});
}

}  // namespace antiphon::decode
