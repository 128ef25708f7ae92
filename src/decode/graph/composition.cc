#include "decode/graph/composition.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/log_add.h"

namespace antiphon::decode {
namespace {

constexpr float kNever = std::numeric_limits<float>::infinity();

// clear() would keep the memory, which counts against the search's limit.
template <class T>
void Release(std::vector<T>& values) {
  std::vector<T>().swap(values);
}

}  // namespace

Composition::Composition(std::shared_ptr<const GraphParts> parts) : parts_(std::move(parts)) { Clear(); }

void Composition::Clear() {
  Release(states_);
  Release(arcs_);
  Release(targets_);
  Release(pairs_);
  Release(outlooks_);
  Release(histories_);
  Release(choices_);
  ids_ = PairTable();
  history_ids_ = PairTable();
  // Searches look ahead in the arcs of states that have none yet.
  arcs_.reserve(1 << 10);
  const int32_t history = HistoryOf(parts_->words().start(), 0);
  const int32_t lexicon_state = parts_->lexicon().start();
  Outlook outlook;
  if (const int32_t set = parts_->lexicon().AheadSet(lexicon_state); set != 0) {
    const WordsAhead ahead = Ahead(set, history);
    if (std::isfinite(ahead.cost)) outlook = {ahead.cost, ahead.only == nullptr};
  }
  CHECK_EQ(StateOf(lexicon_state, history, outlook), kStart);
}

size_t Composition::memory() const {
  return states_.capacity() * sizeof(GraphState) + arcs_.capacity() * sizeof(GraphArc) +
         targets_.capacity() * sizeof(Target) + pairs_.capacity() * sizeof(Pair) +
         outlooks_.capacity() * sizeof(Outlook) + histories_.capacity() * sizeof(History) +
         choices_.capacity() * sizeof(Choice) + ids_.memory() + history_ids_.memory();
}

int32_t Composition::HistoryOf(int32_t state, int32_t word) {
  int32_t& id = history_ids_.Find(state, word);
  if (id < 0) {
    id = static_cast<int32_t>(histories_.size());
    histories_.push_back({state, word, -1, 0, nullptr});
  }
  return id;
}

int32_t Composition::StateOf(int32_t lexicon_state, int32_t history, Outlook outlook) {
  int32_t& id = ids_.Find(lexicon_state, history);
  if (id >= 0) return id;
  id = static_cast<int32_t>(states_.size());
  const History& of = histories_[static_cast<size_t>(history)];
  const GraphState& sounds = parts_->lexicon().states()[static_cast<size_t>(lexicon_state)];
  const float final_cost = of.word == 0 ? sounds.final_cost + parts_->words().FinalCost(of.state) : kNever;
  const uint32_t no_epsilons = sounds.epsilon_begin == sounds.emitting_begin ? 1 : 0;
  states_.push_back({no_epsilons, 1, 0, final_cost});
  pairs_.push_back({lexicon_state, history});
  outlooks_.push_back(outlook);
  return id;
}

std::span<const Choice> Composition::Choices(int32_t history) {
  History& of = histories_[static_cast<size_t>(history)];
  if (of.shared != nullptr) return {of.shared, of.num_choices};
  if (of.first_choice < 0) {
    if (const auto shared = parts_->SharedChoices(of.state); !shared.empty()) {
      of.shared = shared.data();
      of.num_choices = static_cast<uint32_t>(shared.size());
      return shared;
    }
    of.first_choice = static_cast<int64_t>(choices_.size());
    parts_->AppendChoices(of.state, choices_);
    of.num_choices = static_cast<uint32_t>(choices_.size() - static_cast<size_t>(of.first_choice) - 1);
  }
  return std::span(choices_).subspan(static_cast<size_t>(of.first_choice), of.num_choices);
}

WordsAhead Composition::Ahead(int32_t set, int32_t history) {
  if (histories_[static_cast<size_t>(history)].state == parts_->words().base_state()) return parts_->AheadOfBase(set);
  return parts_->Ahead(set, Choices(history));
}

float Composition::AheadOfWord(int32_t set, int32_t word) const {
  const auto labels = parts_->lexicon().labels();
  double cost = std::numeric_limits<double>::infinity();
  const auto ahead = parts_->lexicon().LabelsAhead(set);
  for (const int32_t label : parts_->lexicon().LabelsOf(word)) {
    const auto range = std::lower_bound(ahead.begin(), ahead.end(), label,
                                        [](const LexiconGraph::Labels& r, int32_t l) { return r.last < l; });
    if (range != ahead.end() && range->first <= label) {
      cost = LogAddCosts(cost, labels[static_cast<size_t>(label)].cost);
    }
  }
  return static_cast<float>(cost);
}

void Composition::Expand(int32_t state) {
  const LexiconGraph& lexicon = parts_->lexicon();
  const Pair pair = pairs_[static_cast<size_t>(state)];
  const Origin from = {state, pair, outlooks_[static_cast<size_t>(state)], lexicon.AheadSet(pair.lexicon_state)};
  const GraphState& sounds = lexicon.states()[static_cast<size_t>(pair.lexicon_state)];
  if (arcs_.size() + (sounds.end - sounds.epsilon_begin) >= std::numeric_limits<uint32_t>::max()) {
    throw InputError("the search has met 4 thousand million arcs; give it less memory to keep them (graph-cache)");
  }
  const auto begin = static_cast<uint32_t>(arcs_.size());
  for (uint32_t a = sounds.epsilon_begin; a < sounds.emitting_begin; ++a) Follow(lexicon.arcs()[a], from);
  const auto emitting_begin = static_cast<uint32_t>(arcs_.size());
  for (uint32_t a = sounds.emitting_begin; a < sounds.end; ++a) Follow(lexicon.arcs()[a], from);
  GraphState& made = states_[static_cast<size_t>(state)];
  made.epsilon_begin = begin;
  made.emitting_begin = emitting_begin;
  made.end = static_cast<uint32_t>(arcs_.size());
}

int32_t Composition::Reach(uint32_t arc) {
  int32_t& next = arcs_[arc].next_state;
  if (next < 0) next = StateOf(~next, targets_[arc].history, targets_[arc].outlook);
  return next;
}

void Composition::Add(const GraphArc& arc, const Origin& from, int32_t history, Outlook outlook, float cost,
                      int32_t word) {
  const bool stays = arc.next_state == from.pair.lexicon_state && history == from.pair.history;
  // Most of the arcs that are followed are so at once.
  if (!stays) ids_.Prefetch(arc.next_state, history);
  arcs_.push_back({arc.transition_id, word, cost, stays ? from.state : ~arc.next_state});
  targets_.push_back({history, outlook});
}

void Composition::Arrive(const GraphArc& arc, const Origin& from, int32_t history, float cost, int32_t word) {
  Outlook outlook;
  if (const int32_t set = parts_->lexicon().AheadSet(arc.next_state); set != 0) {
    const WordsAhead ahead = Ahead(set, history);
    if (ahead.cost == kNever) return;
    outlook = {ahead.cost, ahead.only == nullptr};
  }
  Add(arc, from, history, outlook, cost + outlook.cost, word);
}

void Composition::Follow(const GraphArc& arc, const Origin& from) {
  if (arc.word != 0) {
    FollowLabel(arc, from);
    return;
  }
  const LexiconGraph& lexicon = parts_->lexicon();
  const int32_t history = from.pair.history;
  const float here = from.outlook.cost;
  const int32_t set = lexicon.AheadSet(arc.next_state);
  if (set == 0) {
    Add(arc, from, history, {}, arc.cost - here, 0);
    return;
  }
  const int32_t given = histories_[static_cast<size_t>(history)].word;
  // Most arcs decide nothing: what is ahead stays, and the cost has the bits that it would have were it found anew.
  if ((given != 0 || from.outlook.several) && set == from.ahead_set) {
    Add(arc, from, history, from.outlook, arc.cost + here - here, 0);
    return;
  }
  if (given != 0) {
    const float ahead = AheadOfWord(set, given);
    if (ahead != kNever) Add(arc, from, history, {ahead, false}, arc.cost + ahead - here, 0);
    return;
  }
  const auto [ahead, only] = Ahead(set, history);
  if (ahead == kNever) return;
  if (only == nullptr) {
    Add(arc, from, history, {ahead, true}, arc.cost + ahead - here, 0);
    return;
  }
  // No other word is left: it is given now, and what the histories before it do not share is over.
  const hmm::PronunciationLabel label = lexicon.labels()[static_cast<size_t>(only->label)];
  const float of_word = only->cost - label.cost;
  const float behind = AheadOfWord(set, label.word);
  Add(arc, from, HistoryOf(only->next_state, label.word), {behind, false}, arc.cost + of_word + behind - here,
      label.word);
}

void Composition::FollowLabel(const GraphArc& arc, const Origin& from) {
  const History of = histories_[static_cast<size_t>(from.pair.history)];
  const float here = from.outlook.cost;
  const WordAutomaton& words = parts_->words();
  if (arc.word == parts_->lexicon().backoff_label()) {
    const int32_t back = of.word == 0 ? words.Backoff(of.state) : -1;
    if (back >= 0) Arrive(arc, from, HistoryOf(back, 0), arc.cost + words.BackoffCost(of.state) - here, 0);
    return;
  }
  const hmm::PronunciationLabel label = parts_->lexicon().labels()[static_cast<size_t>(arc.word)];
  if (of.word != 0) {
    if (label.word == of.word) Arrive(arc, from, HistoryOf(of.state, 0), arc.cost + label.cost - here, 0);
    return;
  }
  const auto choices = Choices(from.pair.history);
  const auto choice = std::lower_bound(choices.begin(), choices.end(), arc.word,
                                       [](const Choice& c, int32_t l) { return c.label < l; });
  if (choice == choices.end() || choice->label != arc.word) return;
  Arrive(arc, from, HistoryOf(choice->next_state, 0), arc.cost + choice->cost - here, label.word);
}

void Composition::BeginCollection() {
  old_ = std::make_unique<Old>();
  std::swap(old_->states, states_);
  std::swap(old_->arcs, arcs_);
  std::swap(old_->pairs, pairs_);
  std::swap(old_->outlooks, outlooks_);
  std::swap(old_->histories, histories_);
  old_->new_arcs.assign(old_->arcs.size(), std::numeric_limits<uint32_t>::max());
  old_->new_states.assign(old_->states.size(), -1);
  Clear();
  old_->new_states[kStart] = kStart;
}

int32_t Composition::KeepState(int32_t state) {
  int32_t& kept = old_->new_states[static_cast<size_t>(state)];
  if (kept < 0) {
    const Pair pair = old_->pairs[static_cast<size_t>(state)];
    const History& history = old_->histories[static_cast<size_t>(pair.history)];
    kept =
        StateOf(pair.lexicon_state, HistoryOf(history.state, history.word), old_->outlooks[static_cast<size_t>(state)]);
  }
  return kept;
}

uint32_t Composition::KeepArc(uint32_t arc) {
  uint32_t& kept = old_->new_arcs[arc];
  if (kept == std::numeric_limits<uint32_t>::max()) {
    kept = static_cast<uint32_t>(arcs_.size());
    arcs_.push_back(old_->arcs[arc]);
    arcs_.back().next_state = -1;
    targets_.push_back({});
  }
  return kept;
}

void Composition::EndCollection() { old_.reset(); }

}  // namespace antiphon::decode
