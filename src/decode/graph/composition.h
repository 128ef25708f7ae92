// HCL ∘ G as a search walks through it: states are made when they are reached, their arcs when they are followed.
//
// A state is a state of HCL with a history of G. Where HCL looks ahead, its cost has in it what the words ahead cost at
// least: −log of their probabilities' sum, as determinisation would have put it there; arcs to where no word of the
// history can follow are left out, and a word is given as soon as it is the only one, from where on the state is one of
// that word and the history behind it. Paths cost what they cost in HCLG; hypotheses that a beam compares do, too.
//
// Memory: states and arcs stay until Clear or a collection, which keeps those that are asked for and forgets what is
// known of the others; ids change with it. At 2³² − 1 arcs it throws.
// Threads: one per search; the parts are shared.
// Source: Allauzen, Riley, Schalkwyk, A generalized composition algorithm for weighted finite-state transducers,
// Interspeech 2009.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "decode/graph/graph_parts.h"
#include "decode/graph/pair_table.h"

namespace antiphon::decode {

class Composition {
 public:
  explicit Composition(std::shared_ptr<const GraphParts> parts);

  /// Always 0.
  static constexpr int32_t kStart = 0;
  /// Until Expand, arcs of a state end before they begin.
  const std::vector<GraphState>& states() const { return states_; }
  const std::vector<GraphArc>& arcs() const { return arcs_; }
  /// Makes the arcs of a state that has none yet, and the states that they lead to.
  void Expand(int32_t state);

  /// Bytes.
  size_t memory() const;
  void Clear();
  /// Between the two, KeepState and KeepArc give the new ids of what stays. Kept arcs lead nowhere.
  void BeginCollection();
  int32_t KeepState(int32_t state);
  uint32_t KeepArc(uint32_t arc);
  void EndCollection();

 private:
  struct Pair {
    int32_t lexicon_state;
    int32_t history;
  };
  // What a state costs ahead, and whether several words are ahead.
  struct Outlook {
    float cost = 0.0F;
    bool several = false;
  };
  // A state of G; with a word: that word has been given already and leads there.
  struct History {
    int32_t state;
    int32_t word;
    int64_t first_choice;  // −1: not known yet
    uint32_t num_choices;
    const Choice* shared;  // those that all searches share; null: its own
  };
  // A state whose arcs are being made.
  struct Origin {
    int32_t state;
    Pair pair;
    Outlook outlook;
    std::span<const LexiconGraph::Labels> ahead;
  };
  // Where an arc leads of the state that arcs are made for; −1: to that state itself.
  struct Target {
    int32_t history;
    Outlook outlook;
  };
  struct Old {
    std::vector<GraphState> states;
    std::vector<GraphArc> arcs;
    std::vector<Pair> pairs;
    std::vector<Outlook> outlooks;
    std::vector<History> histories;
    std::vector<uint32_t> new_arcs;
    std::vector<int32_t> new_states;
  };

  int32_t StateOf(int32_t lexicon_state, int32_t history, Outlook outlook);
  int32_t HistoryOf(int32_t state, int32_t word);
  std::span<const Choice> Choices(int32_t history);
  void Follow(const GraphArc& arc, const Origin& from);
  void FollowLabel(const GraphArc& arc, const Origin& from);
  void FindTargets(int32_t state, size_t first_arc);
  // An arc to the same state of HCL as `arc`, with a history.
  void Add(const GraphArc& arc, const Origin& from, int32_t history, Outlook outlook, float cost, int32_t word);
  // The same where what is ahead is to be found and added to the cost; no arc if no word can follow.
  void Arrive(const GraphArc& arc, const Origin& from, int32_t history, float cost, int32_t word);
  // What a state costs ahead; infinite if no word can follow. `only` becomes a choice of the word, if there is but
  // one.
  float Ahead(int32_t lexicon_state, std::span<const Choice> choices, const Choice** only) const;
  float AheadOfWord(int32_t lexicon_state, int32_t word) const;

  std::shared_ptr<const GraphParts> parts_;
  std::vector<GraphState> states_;
  std::vector<GraphArc> arcs_;
  std::vector<Pair> pairs_;        // by state
  std::vector<Outlook> outlooks_;  // by state
  PairTable ids_;
  std::vector<History> histories_;
  PairTable history_ids_;
  std::vector<Choice> choices_;
  std::vector<Target> targets_;  // of the arcs being made, whose next states are those of HCL yet
  std::unique_ptr<Old> old_;
};

}  // namespace antiphon::decode
