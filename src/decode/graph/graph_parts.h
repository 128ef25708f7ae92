// What a graph that is put together during the search consists of: HCL, G, and what both say together.
//
// Threads: const methods may run together.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "decode/graph/lexicon_graph.h"
#include "decode/graph/word_automaton.h"

namespace antiphon::decode {

/// A pronunciation that may follow a history.
struct Choice {
  int32_t label;       // of HCL
  int32_t next_state;  // of G
  float cost;          // of the word and of the pronunciation
  double before;       // sum of the probabilities of the choices before this one
};

/// What the choices that lie ahead of a state of HCL cost together, and the first of them if they are all one word's.
struct WordsAhead {
  float cost = 0.0F;             // −log of their probabilities' sum; infinite if there is none
  const Choice* only = nullptr;  // null if there are several words
};

class GraphParts {
 public:
  GraphParts(LexiconGraph lexicon, WordAutomaton words);
  GraphParts(const GraphParts&) = delete;

  const LexiconGraph& lexicon() const { return lexicon_; }
  const WordAutomaton& words() const { return words_; }
  /// Appends the choices of a state of G, ascending by label, and one without a label behind them.
  void AppendChoices(int32_t state, std::vector<Choice>& choices) const;
  /// Those of a state with so many that all searches share them, the last one left out; empty for others.
  std::span<const Choice> SharedChoices(int32_t state) const {
    const auto found = shared_.find(state);
    return found == shared_.end() ? std::span<const Choice>()
                                  : std::span(found->second).first(found->second.size() - 1);
  }
  /// Among the labels of a set (LexiconGraph::AheadSet), of a state's choices: without the one behind them.
  WordsAhead Ahead(int32_t set, std::span<const Choice> choices) const;
  /// The same of the base state of G, where most searches are most of the time.
  const WordsAhead& AheadOfBase(int32_t set) const { return ahead_of_base_[static_cast<size_t>(set)]; }

 private:
  LexiconGraph lexicon_;
  WordAutomaton words_;
  std::unordered_map<int32_t, std::vector<Choice>> shared_;
  std::vector<WordsAhead> ahead_of_base_;
};

}  // namespace antiphon::decode
