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
// Below this share of what it is a difference of, a sum of probabilities is added up anew.
constexpr double kPrecise = 1e-9;

bool AreSame(std::span<const LexiconGraph::Labels> a, std::span<const LexiconGraph::Labels> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && x.last == y.last; });
}

}  // namespace

Composition::Composition(std::shared_ptr<const GraphParts> parts) : parts_(std::move(parts)) { Clear(); }

void Composition::Clear() {
  states_.clear();
  arcs_.clear();
  pairs_.clear();
  outlooks_.clear();
  ids_.Clear();
  histories_.clear();
  history_ids_.Clear();
  choices_.clear();
  // Searches look ahead in the arcs of states that have none yet.
  arcs_.reserve(1 << 10);
  const int32_t history = HistoryOf(parts_->words().start(), 0);
  const int32_t lexicon_state = parts_->lexicon().start();
  Outlook outlook;
  if (!parts_->lexicon().Ahead(lexicon_state).empty()) {
    const Choice* only = nullptr;
    const float ahead = Ahead(lexicon_state, Choices(history), &only);
    if (std::isfinite(ahead)) outlook = {ahead, only == nullptr};
  }
  CHECK_EQ(StateOf(lexicon_state, history, outlook), kStart);
}

size_t Composition::memory() const {
  return states_.capacity() * sizeof(GraphState) + arcs_.capacity() * sizeof(GraphArc) +
         pairs_.capacity() * sizeof(Pair) + outlooks_.capacity() * sizeof(Outlook) +
         histories_.capacity() * sizeof(History) + choices_.capacity() * sizeof(Choice) + ids_.memory() +
         history_ids_.memory();
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
  const float end = parts_->lexicon().states()[static_cast<size_t>(lexicon_state)].final_cost;
  const float final_cost = of.word == 0 ? end + parts_->words().FinalCost(of.state) : kNever;
  states_.push_back({0, 1, 0, final_cost});
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

float Composition::Ahead(int32_t lexicon_state, std::span<const Choice> choices, const Choice** only) const {
  const auto labels = parts_->lexicon().labels();
  const auto word_of = [&](const Choice& choice) { return labels[static_cast<size_t>(choice.label)].word; };
  const Choice* const end = choices.data() + choices.size();
  const Choice* at = choices.data();
  const Choice* first = nullptr;
  size_t count = 0;
  bool same = true, precise = true;
  double sum = 0.0;
  const auto ahead = parts_->lexicon().Ahead(lexicon_state);
  for (const LexiconGraph::Labels range : ahead) {
    const auto less = [](const Choice& choice, int32_t label) { return choice.label < label; };
    const Choice* const from = std::lower_bound(at, end, range.first, less);
    at = std::lower_bound(from, end, range.last + 1, less);
    if (from == at) continue;
    if (first == nullptr) first = from;
    count += static_cast<size_t>(at - from);
    // The last choice is followed by one that holds the sum.
    const double p = at->before - from->before;
    precise = precise && p > kPrecise * at->before;
    sum += p;
    for (const Choice* choice = at; same && choice != from;) same = word_of(*--choice) == word_of(*first);
  }
  *only = same ? first : nullptr;
  if (count == 0) return kNever;
  if (count == 1) return first->cost;
  if (precise) return static_cast<float>(-std::log(sum));
  double cost = std::numeric_limits<double>::infinity();
  for (const LexiconGraph::Labels range : ahead) {
    for (const Choice& choice : choices) {
      if (choice.label >= range.first && choice.label <= range.last) cost = LogAddCosts(cost, choice.cost);
    }
  }
  return static_cast<float>(cost);
}

float Composition::AheadOfWord(int32_t lexicon_state, int32_t word) const {
  const auto labels = parts_->lexicon().labels();
  double cost = std::numeric_limits<double>::infinity();
  const auto ahead = parts_->lexicon().Ahead(lexicon_state);
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
  const Origin from = {state, pair, outlooks_[static_cast<size_t>(state)], lexicon.Ahead(pair.lexicon_state)};
  const GraphState& sounds = lexicon.states()[static_cast<size_t>(pair.lexicon_state)];
  if (arcs_.size() + (sounds.end - sounds.epsilon_begin) >= std::numeric_limits<uint32_t>::max()) {
    throw InputError("the search has met 4 thousand million arcs; give it less memory to keep them (graph-cache)");
  }
  const auto begin = static_cast<uint32_t>(arcs_.size());
  targets_.clear();
  for (uint32_t a = sounds.epsilon_begin; a < sounds.emitting_begin; ++a) Follow(lexicon.arcs()[a], from);
  const auto emitting_begin = static_cast<uint32_t>(arcs_.size());
  for (uint32_t a = sounds.emitting_begin; a < sounds.end; ++a) Follow(lexicon.arcs()[a], from);
  FindTargets(state, begin);
  GraphState& made = states_[static_cast<size_t>(state)];
  made.epsilon_begin = begin;
  made.emitting_begin = emitting_begin;
  made.end = static_cast<uint32_t>(arcs_.size());
}

void Composition::Add(const GraphArc& arc, const Origin& from, int32_t history, Outlook outlook, float cost,
                      int32_t word) {
  const bool stays = arc.next_state == from.pair.lexicon_state && history == from.pair.history;
  if (!stays) ids_.Prefetch(arc.next_state, history);
  arcs_.push_back({arc.transition_id, word, cost, arc.next_state});
  targets_.push_back({stays ? -1 : history, outlook});
}

// Only now, so that the waits for memory overlap.
void Composition::FindTargets(int32_t state, size_t first_arc) {
  for (size_t i = 0; i < targets_.size(); ++i) {
    const Target& target = targets_[i];
    int32_t& next = arcs_[first_arc + i].next_state;
    next = target.history < 0 ? state : StateOf(next, target.history, target.outlook);
  }
}

void Composition::Arrive(const GraphArc& arc, const Origin& from, int32_t history, float cost, int32_t word) {
  Outlook outlook;
  if (!parts_->lexicon().Ahead(arc.next_state).empty()) {
    const Choice* only = nullptr;
    const float ahead = Ahead(arc.next_state, Choices(history), &only);
    if (ahead == kNever) return;
    outlook = {ahead, only == nullptr};
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
  const auto labels = lexicon.Ahead(arc.next_state);
  if (labels.empty()) {
    Add(arc, from, history, {}, arc.cost - here, 0);
    return;
  }
  const int32_t given = histories_[static_cast<size_t>(history)].word;
  // Most arcs decide nothing: what is ahead stays, and the cost has the bits that it would have were it found anew.
  if ((given != 0 || from.outlook.several) && AreSame(labels, from.ahead)) {
    Add(arc, from, history, from.outlook, arc.cost + here - here, 0);
    return;
  }
  if (given != 0) {
    const float ahead = AheadOfWord(arc.next_state, given);
    if (ahead != kNever) Add(arc, from, history, {ahead, false}, arc.cost + ahead - here, 0);
    return;
  }
  const Choice* only = nullptr;
  const float ahead = Ahead(arc.next_state, Choices(history), &only);
  if (ahead == kNever) return;
  if (only == nullptr) {
    Add(arc, from, history, {ahead, true}, arc.cost + ahead - here, 0);
    return;
  }
  // No other word is left: it is given now, and what the histories before it do not share is over.
  const hmm::PronunciationLabel label = lexicon.labels()[static_cast<size_t>(only->label)];
  const float of_word = only->cost - label.cost;
  const float behind = AheadOfWord(arc.next_state, label.word);
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
  choices_ = {};
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
  }
  return kept;
}

void Composition::EndCollection() { old_.reset(); }

}  // namespace antiphon::decode
