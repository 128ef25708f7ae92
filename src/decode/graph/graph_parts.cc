#include "decode/graph/graph_parts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/log_add.h"

namespace antiphon::decode {
namespace {

// States with more arcs are put in order once, not by every search.
constexpr size_t kManyArcs = 256;
// Below this share of what it is a difference of, a sum of probabilities is added up anew.
constexpr double kPrecise = 1e-9;

}  // namespace

GraphParts::GraphParts(LexiconGraph lexicon, WordAutomaton words)
    : lexicon_(std::move(lexicon)), words_(std::move(words)) {
  for (int32_t s = 0; s < words_.num_states(); ++s) {
    if (words_.ArcsOf(s).words.size() <= kManyArcs && s != words_.base_state()) continue;
    std::vector<Choice> choices;
    AppendChoices(s, choices);
    choices.shrink_to_fit();
    shared_.emplace(s, std::move(choices));
  }
  const std::span<const Choice> of_base = SharedChoices(words_.base_state());
  for (int32_t set = 0; set < lexicon_.num_ahead_sets(); ++set) ahead_of_base_.push_back(Ahead(set, of_base));
}

WordsAhead GraphParts::Ahead(int32_t set, std::span<const Choice> choices) const {
  const auto labels = lexicon_.labels();
  const auto word_of = [&](const Choice& choice) { return labels[static_cast<size_t>(choice.label)].word; };
  const Choice* const end = choices.data() + choices.size();
  const Choice* at = choices.data();
  const Choice* first = nullptr;
  size_t count = 0;
  bool same = true, precise = true;
  double sum = 0.0;
  const auto ahead = lexicon_.LabelsAhead(set);
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
  const Choice* const only = same ? first : nullptr;
  if (count == 0) return {std::numeric_limits<float>::infinity(), nullptr};
  if (count == 1) return {first->cost, only};
  if (precise) return {static_cast<float>(-std::log(sum)), only};
  double cost = std::numeric_limits<double>::infinity();
  for (const LexiconGraph::Labels range : ahead) {
    for (const Choice& choice : choices) {
      if (choice.label >= range.first && choice.label <= range.last) cost = LogAddCosts(cost, choice.cost);
    }
  }
  return {static_cast<float>(cost), only};
}

void GraphParts::AppendChoices(int32_t state, std::vector<Choice>& choices) const {
  const size_t begin = choices.size();
  const auto labels = lexicon_.labels();
  const auto add = [&](int32_t word, float cost, int32_t next) {
    for (const int32_t label : lexicon_.LabelsOf(word)) {
      choices.push_back({label, next, cost + labels[static_cast<size_t>(label)].cost, 0.0});
    }
  };
  const WordAutomaton::Arcs arcs = words_.ArcsOf(state);
  for (size_t i = 0; i < arcs.words.size(); ++i) add(arcs.words[i], arcs.costs[i], arcs.next[i]);
  if (state == words_.base_state()) {
    for (const auto& [word, cost] : words_.added()) add(word, cost, state);
  }
  const auto first = choices.begin() + static_cast<std::ptrdiff_t>(begin);
  std::sort(first, choices.end(), [](const Choice& a, const Choice& b) { return a.label < b.label; });
  double sum = 0.0;
  for (auto choice = first; choice != choices.end(); ++choice) {
    choice->before = sum;
    sum += std::exp(-static_cast<double>(choice->cost));
  }
  choices.push_back({lexicon_.backoff_label() + 1, -1, 0.0F, sum});
}

}  // namespace antiphon::decode
