// HCL ∘ G as a search walks through it: a state is made when an arc to it is followed, its arcs when the search goes on
// from it. Most arcs are never followed: a beam drops what they would cost.
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
  /// Until Expand, arcs of a state end before they begin; if it has arcs that take no frame is known.
  const std::vector<GraphState>& states() const { return states_; }
  /// Until Reach, their next states are negative.
  const std::vector<GraphArc>& arcs() const { return arcs_; }
  /// Makes the arcs of a state that has none yet.
  void Expand(int32_t state);
  /// The state that an arc leads to, made if nothing has led there yet.
  int32_t Reach(uint32_t arc);

  /// Bytes.
  size_t memory() const;
  /// As after construction, in memory too.
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
    int32_t ahead_set;
  };
  // What is known of the state that an arc will lead to, beside the state of HCL that the arc holds until then.
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
  // An arc to the same state of HCL as `arc`, with a history.
  void Add(const GraphArc& arc, const Origin& from, int32_t history, Outlook outlook, float cost, int32_t word);
  // The same where what is ahead is to be found and added to the cost; no arc if no word can follow.
  void Arrive(const GraphArc& arc, const Origin& from, int32_t history, float cost, int32_t word);
  // What words cost ahead, of a set of labels and a history that has given none.
  WordsAhead Ahead(int32_t set, int32_t history);
  float AheadOfWord(int32_t set, int32_t word) const;

  std::shared_ptr<const GraphParts> parts_;
  std::vector<GraphState> states_;
  std::vector<GraphArc> arcs_;     // those that nobody followed yet lead to ~(state of HCL)
  std::vector<Target> targets_;    // by arc
  std::vector<Pair> pairs_;        // by state
  std::vector<Outlook> outlooks_;  // by state
  PairTable ids_;
  std::vector<History> histories_;
  PairTable history_ids_;
  std::vector<Choice> choices_;
  std::unique_ptr<Old> old_;
};

}  // namespace antiphon::decode
