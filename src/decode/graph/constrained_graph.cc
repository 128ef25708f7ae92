#include "decode/graph/constrained_graph.h"

#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "decode/graph/graph_walk.h"

namespace antiphon::decode {
namespace {

constexpr float kNotFinal = std::numeric_limits<float>::infinity();

// Pairs of a state of the graph and the number of words said before it, in the order in which they are found.
class Pairs {
 public:
  int32_t Find(int32_t state, size_t said) {
    const uint64_t key = (static_cast<uint64_t>(said) << 32) | static_cast<uint32_t>(state);
    const auto [it, is_new] = index_.try_emplace(key, static_cast<int32_t>(pairs_.size()));
    if (is_new) pairs_.emplace_back(state, said);
    return it->second;
  }
  size_t size() const { return pairs_.size(); }
  std::pair<int32_t, size_t> operator[](size_t i) const { return pairs_[i]; }

 private:
  std::unordered_map<uint64_t, int32_t> index_;
  std::vector<std::pair<int32_t, size_t>> pairs_;
};

}  // namespace

std::optional<Graph> ConstrainToWords(const Graph& graph, std::span<const int32_t> words) {
  Pairs pairs;
  std::vector<GraphState> states;
  std::vector<GraphArc> arcs;
  bool ends = false;
  GraphWalk walk(graph);
  pairs.Find(walk.start(), 0);
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto [state, said] = pairs[i];
    const GraphState from = walk.Expanded(state);
    GraphState to;
    const auto copy = [&, place = said](uint32_t begin, uint32_t end) {
      for (uint32_t a = begin; a < end; ++a) {
        GraphArc arc = walk.arcs()[a];
        if (arc.word != 0 && (place == words.size() || arc.word != words[place])) continue;
        arc.next_state = pairs.Find(walk.Next(a), place + (arc.word != 0 ? 1 : 0));
        arcs.push_back(arc);
      }
    };
    to.epsilon_begin = static_cast<uint32_t>(arcs.size());
    copy(from.epsilon_begin, from.emitting_begin);
    to.emitting_begin = static_cast<uint32_t>(arcs.size());
    copy(from.emitting_begin, from.end);
    to.end = static_cast<uint32_t>(arcs.size());
    to.final_cost = said == words.size() ? from.final_cost : kNotFinal;
    ends = ends || to.final_cost != kNotFinal;
    states.push_back(to);
  }
  if (!ends) return std::nullopt;
  const auto pdfs = graph.pdf_of_transition();
  return Graph(std::move(states), std::move(arcs), 0, graph.words(), {pdfs.begin(), pdfs.end()});
}

}  // namespace antiphon::decode
