// HCL of a graph that is put together during the search: how words sound, from transition-ids to pronunciations.
//
// Built as HCLG is, without G: its arcs' `word` is the label of a pronunciation, given as early as the phones decide on
// it, or the back-off label, which loops where words begin. Labels are numbered so that those that can follow a state
// lie together.
//
// *Ahead* of a state are the labels that one of must come before the word ends: what the search looks up in G to know
// what the word may be, and at what cost. A state from where a word's end can be reached without a label looks ahead at
// nothing.
//
// Threads: const methods may run together. Errors: InputError for what is no such graph.
// Source: Allauzen, Riley, Schalkwyk, A generalized composition algorithm for weighted finite-state transducers,
// Interspeech 2009.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "decode/graph/graph_arc.h"
#include "hmm/graph/lexicon_fst.h"

namespace antiphon::decode {

class LexiconGraph {
 public:
  /// Labels of neighbouring numbers, both inclusive.
  struct Labels {
    int32_t first;
    int32_t last;
  };

  LexiconGraph() = default;
  /// `arcs` are kept alive by `owner`; `labels[0]` stands for none. Transition-ids are 1 … num_transition_ids, words
  /// 1 … num_words.
  LexiconGraph(std::vector<GraphState> states, std::span<const GraphArc> arcs, std::shared_ptr<const void> owner,
               int32_t start, std::vector<hmm::PronunciationLabel> labels, int32_t num_transition_ids,
               int32_t num_words);

  int32_t start() const { return start_; }
  std::span<const GraphState> states() const { return states_; }
  std::span<const GraphArc> arcs() const { return arcs_; }
  /// Of a label: its word and the cost of this pronunciation.
  std::span<const hmm::PronunciationLabel> labels() const { return labels_; }
  int32_t backoff_label() const { return static_cast<int32_t>(labels_.size()); }
  /// Ascending.
  std::span<const int32_t> LabelsOf(int32_t word) const {
    const auto w = static_cast<size_t>(word);
    return std::span(labels_of_words_).subspan(first_label_[w], first_label_[w + 1] - first_label_[w]);
  }

  /// Which labels are ahead of a state: states of which the same are have the same number. 0: it looks ahead at
  /// nothing.
  int32_t AheadSet(int32_t state) const { return ahead_sets_[static_cast<size_t>(state)]; }
  int32_t num_ahead_sets() const { return static_cast<int32_t>(first_ahead_.size()) - 1; }
  /// Of such a set; ascending, with gaps between them.
  std::span<const Labels> LabelsAhead(int32_t set) const {
    const auto s = static_cast<size_t>(set);
    return std::span(ahead_).subspan(first_ahead_[s], first_ahead_[s + 1] - first_ahead_[s]);
  }

 private:
  void Check(int32_t num_transition_ids, int32_t num_words) const;
  void IndexWords(int32_t num_words);
  void LookAhead();

  std::vector<GraphState> states_;
  std::span<const GraphArc> arcs_;
  std::shared_ptr<const void> owner_;
  int32_t start_ = 0;
  std::vector<hmm::PronunciationLabel> labels_;
  std::vector<uint32_t> first_label_;
  std::vector<int32_t> labels_of_words_;
  std::vector<int32_t> ahead_sets_;    // by state
  std::vector<uint32_t> first_ahead_;  // by set
  std::vector<Labels> ahead_;
};

/// A new number for each label, so that labels that can follow the same states lie together: [old] → new; 0 and the
/// back-off label stay.
std::vector<int32_t> NumberLabels(std::span<const GraphState> states, std::span<const GraphArc> arcs, int32_t start,
                                  int32_t backoff_label);

}  // namespace antiphon::decode
