#include "decode/search/word_cost.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "base/median.h"
#include "decode/graph/graph_parts.h"

namespace antiphon::decode {
namespace {

// Costs of the cheapest ways to states (Dijkstra): Reach those that a way starts from, then Follow.
class CheapestWays {
 public:
  explicit CheapestWays(size_t num_states) : costs_(num_states, std::numeric_limits<float>::infinity()) {}

  void Reach(int32_t state, float cost) {
    float& best = costs_[static_cast<size_t>(state)];
    if (cost >= best) return;
    best = cost;
    waiting_.push({cost, state});
  }
  // `leave(state, cost)` Reaches where the arcs of a state lead; none of them may cost less than 0. Infinite where no
  // way leads.
  template <class Leave>
  std::vector<float> Follow(const Leave& leave) {
    while (!waiting_.empty()) {
      const auto [cost, state] = waiting_.top();
      waiting_.pop();
      if (cost <= costs_[static_cast<size_t>(state)]) leave(state, cost);
    }
    return std::move(costs_);
  }

 private:
  using Reached = std::pair<float, int32_t>;  // cost, state
  std::vector<float> costs_;
  std::priority_queue<Reached, std::vector<Reached>, std::greater<>> waiting_;
};

// Of the cheapest way to each state from the start or from behind a word, without another word between. Costs below 0,
// which pushed weights may have, count as 0.
std::vector<float> CostsSinceAWord(const Graph& graph) {
  CheapestWays ways(graph.states().size());
  ways.Reach(graph.start(), 0);
  for (const GraphArc& arc : graph.arcs()) {
    if (arc.word != 0) ways.Reach(arc.next_state, 0);
  }
  return ways.Follow([&](int32_t state, float cost) {
    const GraphState& from = graph.states()[static_cast<size_t>(state)];
    for (const GraphArc& arc : graph.arcs().subspan(from.epsilon_begin, from.end - from.epsilon_begin)) {
      if (arc.word == 0) ways.Reach(arc.next_state, cost + std::max(0.0F, arc.cost));
    }
  });
}

// Of each history: the cheapest way there from one in which a word, or the start, has led, by backing off.
std::vector<float> CostsOfBackingOff(const WordAutomaton& words) {
  CheapestWays ways(static_cast<size_t>(words.num_states()));
  ways.Reach(words.start(), 0);
  for (int32_t s = 0; s < words.num_states(); ++s) {
    for (const int32_t next : words.ArcsOf(s).next) ways.Reach(next, 0);
  }
  return ways.Follow([&](int32_t state, float cost) {
    if (words.Backoff(state) >= 0) ways.Reach(words.Backoff(state), cost + std::max(0.0F, words.BackoffCost(state)));
  });
}

// Of what searches put together: the places are the histories that a word may follow.
std::map<int32_t, std::vector<float>> PlacesInParts(const GraphParts& parts, const std::set<int32_t>& wanted) {
  const WordAutomaton& words = parts.words();
  const std::vector<float> before = CostsOfBackingOff(words);
  const auto labels = parts.lexicon().labels();
  std::map<int32_t, std::vector<float>> places;
  const auto add = [&](int32_t word, float cost) {
    float best = std::numeric_limits<float>::infinity();
    for (const int32_t label : parts.lexicon().LabelsOf(word)) {
      best = std::min(best, labels[static_cast<size_t>(label)].cost);
    }
    places[word].push_back(cost + best);
  };
  for (int32_t s = 0; s < words.num_states(); ++s) {
    const WordAutomaton::Arcs arcs = words.ArcsOf(s);
    for (size_t i = 0; i < arcs.words.size(); ++i) {
      if (wanted.contains(arcs.words[i])) add(arcs.words[i], before[static_cast<size_t>(s)] + arcs.costs[i]);
    }
  }
  for (const auto& [word, cost] : words.added()) {
    if (wanted.contains(word)) add(word, before[static_cast<size_t>(words.base_state())] + cost);
  }
  return places;
}

// The median of each.
std::map<int32_t, float> Medians(std::map<int32_t, std::vector<float>>&& places) {
  std::map<int32_t, float> usual;
  for (auto& [word, costs] : places) usual[word] = std::max(0.0F, Median(std::move(costs)));
  return usual;
}

}  // namespace

std::map<int32_t, float> UsualCosts(const Graph& graph, const std::set<int32_t>& words) {
  if (graph.parts() != nullptr) return Medians(PlacesInParts(*graph.parts(), words));
  const std::vector<float> before = CostsSinceAWord(graph);
  std::map<int32_t, std::vector<float>> places;
  for (size_t s = 0; s < graph.states().size(); ++s) {
    const GraphState& state = graph.states()[s];
    for (const GraphArc& arc : graph.arcs().subspan(state.epsilon_begin, state.end - state.epsilon_begin)) {
      if (words.contains(arc.word)) places[arc.word].push_back(before[s] + arc.cost);
    }
  }
  return Medians(std::move(places));
}

}  // namespace antiphon::decode
