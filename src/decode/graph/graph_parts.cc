#include "decode/graph/graph_parts.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace antiphon::decode {
namespace {

// States with more arcs are put in order once, not by every search.
constexpr size_t kManyArcs = 256;

}  // namespace

GraphParts::GraphParts(LexiconGraph lexicon, WordAutomaton words)
    : lexicon_(std::move(lexicon)), words_(std::move(words)) {
  for (int32_t s = 0; s < words_.num_states(); ++s) {
    if (words_.ArcsOf(s).words.size() <= kManyArcs) continue;
    std::vector<Choice> choices;
    AppendChoices(s, choices);
    choices.shrink_to_fit();
    shared_.emplace(s, std::move(choices));
  }
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
