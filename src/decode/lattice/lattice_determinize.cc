#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <queue>

#include "base/check.h"
#include "base/log.h"
#include "decode/graph/label_trie.h"
#include "decode/lattice/lattice.h"

namespace antiphon::decode {
namespace {

constexpr double kNoCost = std::numeric_limits<double>::infinity();
// Transition-ids moved per arc that is allowed. Lattices of read English take 50 per arc; where one word may be said
// any number of times in the same speech it can be thousands, and minutes.
constexpr int64_t kWorkPerArc = 60;
// Beams that are tried before the best path alone is left.
constexpr int kBeams = 20;

// A state of the input with what is not yet on the output's arcs: cost and transition-ids.
struct LatticeElement {
  int32_t state;
  LatticeCost cost;
  int32_t string;
};

using LatticeSubset = std::vector<LatticeElement>;  // ascending states

class Determinizer {
 public:
  Determinizer(const Lattice& lattice, const DeterminizeOptions& options)
      : in_(lattice),
        options_(options),
        weights_{options.acoustic_scale, 0.0},
        backward_(BackwardCosts(lattice, weights_)) {}

  // False if the output would grow beyond max_arcs within `beam`, or finding it take too long. With a beam of 0 nothing
  // could be left out any more, so that there is no limit.
  bool Run(double beam, Lattice* result) {
    limit_ = backward_[0] + beam + 1e-9 * std::abs(backward_[0]);
    FindOrAdd({{0, {}, LabelTrie::kEmpty}}, 0.0);
    int64_t num_arcs = 0;
    while (!queue_.empty()) {
      const int32_t id = queue_.top().second;
      queue_.pop();
      Expand(id);
      num_arcs += static_cast<int64_t>(out_.states[id].arcs.size());
      if (beam > 0 && (num_arcs > options_.max_arcs || work_ > kWorkPerArc * options_.max_arcs)) return false;
    }
    *result = Sorted();
    return true;
  }

 private:
  struct OutState {
    LatticeSubset minimal;  // before following arcs without words
    double forward = 0.0;   // least cost of a way here
  };

  double Total(const LatticeCost& cost) const { return cost.Total(weights_.acoustic_scale); }

  // Whether a is to be preferred; total over all elements, so that nothing depends on the order of arrival.
  bool Better(const LatticeCost& a, int32_t a_string, const LatticeCost& b, int32_t b_string) const {
    const double total_a = Total(a), total_b = Total(b);
    if (total_a != total_b) return total_a < total_b;
    if (a.graph != b.graph) return a.graph < b.graph;
    return a_string != b_string && strings_.Labels(a_string) < strings_.Labels(b_string);
  }

  // Everything that the subset reaches by arcs without words, each state once, with its best way. Arcs lead to higher
  // states, so that taking states in ascending order settles each at its first visit.
  std::vector<LatticeElement> Close(const LatticeSubset& subset, double forward) {
    std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> todo;
    for (const LatticeElement& e : subset) Reach(e, forward, todo);
    std::vector<LatticeElement> closed;
    while (!todo.empty()) {
      const int32_t state = todo.top();
      todo.pop();
      const LatticeElement element = reached_[state];
      mark_[state] = 0;
      closed.push_back(element);
      for (const LatticeArc& arc : in_.states[state].arcs) {
        if (arc.word == 0)
          Reach({arc.next_state, element.cost + arc.cost, Follow(element, arc.alignment)}, forward, todo);
      }
    }
    return closed;
  }

  int32_t Follow(const LatticeElement& element, AlignmentRange range) {
    return strings_.Append(element.string, in_.Alignment(range));
  }

  template <class Queue>
  void Reach(const LatticeElement& e, double forward, Queue& todo) {
    if (forward + Total(e.cost) + backward_[e.state] > limit_) return;
    if (mark_[e.state] == 0) {
      mark_[e.state] = 1;
      reached_[e.state] = e;
      todo.push(e.state);
    } else if (Better(e.cost, e.string, reached_[e.state].cost, reached_[e.state].string)) {
      reached_[e.state] = e;
    }
  }

  void Expand(int32_t id) {
    const double forward = states_[id].forward;
    const std::vector<LatticeElement> closed = Close(states_[id].minimal, forward);
    SetFinal(id, closed, forward);
    std::map<int32_t, std::map<int32_t, LatticeElement>> by_word;
    for (const LatticeElement& e : closed) {
      for (const LatticeArc& arc : in_.states[e.state].arcs) {
        if (arc.word == 0) continue;
        const LatticeElement next{arc.next_state, e.cost + arc.cost, Follow(e, arc.alignment)};
        if (forward + Total(next.cost) + backward_[next.state] > limit_) continue;
        const auto [it, added] = by_word[arc.word].emplace(next.state, next);
        if (!added && Better(next.cost, next.string, it->second.cost, it->second.string)) it->second = next;
      }
    }
    for (const auto& [word, elements] : by_word) AddArc(id, word, elements, forward);
  }

  void SetFinal(int32_t id, const std::vector<LatticeElement>& closed, double forward) {
    LatticeState& state = out_.states[id];
    int32_t best_string = LabelTrie::kEmpty;
    for (const LatticeElement& e : closed) {
      const LatticeState& in = in_.states[e.state];
      if (!in.is_final) continue;
      const LatticeCost cost = e.cost + in.final_cost;
      if (forward + Total(cost) > limit_) continue;
      const int32_t string = Follow(e, in.final_alignment);
      if (state.is_final && !Better(cost, string, state.final_cost, best_string)) continue;
      state.is_final = true;
      state.final_cost = cost;
      best_string = string;
    }
    if (state.is_final) state.final_alignment = out_.AddAlignment(strings_.Labels(best_string));
  }

  void AddArc(int32_t id, int32_t word, const std::map<int32_t, LatticeElement>& elements, double forward) {
    const LatticeElement* best = nullptr;
    int32_t common = elements.begin()->second.string;
    for (const auto& [state, e] : elements) {
      if (best == nullptr || Better(e.cost, e.string, best->cost, best->string)) best = &e;
      common = strings_.CommonPrefix(common, e.string);
    }
    LatticeSubset subset;
    const LatticeCost shared = best->cost;
    for (const auto& [state, e] : elements) {
      const std::vector<int32_t> rest = strings_.Labels(e.string, strings_.Length(common));
      work_ += 1 + std::ssize(rest);
      subset.push_back({state, e.cost - shared, strings_.Append(LabelTrie::kEmpty, rest)});
    }
    const int32_t next = FindOrAdd(std::move(subset), forward + Total(shared));
    out_.states[id].arcs.push_back({next, word, shared, out_.AddAlignment(strings_.Labels(common))});
  }

  // Residual costs that differ by less than rounding does must be one state.
  struct KeyPart {
    int32_t state, string;
    int64_t graph, acoustic;
    auto operator<=>(const KeyPart&) const = default;
  };
  int32_t FindOrAdd(LatticeSubset subset, double forward) {
    std::vector<KeyPart> key;
    for (const LatticeElement& e : subset) {
      key.push_back({e.state, e.string, std::llround(e.cost.graph * 4096),
                     std::llround(e.cost.acoustic * weights_.acoustic_scale * 4096)});
    }
    const auto [it, added] = ids_.emplace(std::move(key), static_cast<int32_t>(states_.size()));
    if (added) {
      states_.push_back({std::move(subset), forward});
      out_.states.emplace_back();
      queue_.emplace(states_.back().minimal.front().state, it->second);
    } else {
      states_[it->second].forward = std::min(states_[it->second].forward, forward);
    }
    return it->second;
  }

  // Output states in topological order, without those that lead nowhere.
  Lattice Sorted() const;

  const Lattice& in_;
  DeterminizeOptions options_;
  LatticeWeights weights_;
  std::vector<double> backward_;
  double limit_ = kNoCost;
  int64_t work_ = 0;
  LabelTrie strings_;
  Lattice out_;
  std::vector<OutState> states_;
  std::map<std::vector<KeyPart>, int32_t> ids_;
  // By the first input state of the subset: arcs lead to higher ones, so that a state comes after all that lead to it.
  std::priority_queue<std::pair<int32_t, int32_t>, std::vector<std::pair<int32_t, int32_t>>, std::greater<>> queue_;
  std::vector<uint8_t> mark_ = std::vector<uint8_t>(in_.states.size(), 0);
  std::vector<LatticeElement> reached_ = std::vector<LatticeElement>(in_.states.size());
};

Lattice Determinizer::Sorted() const {
  std::vector<int32_t> incoming(out_.states.size(), 0), order;
  for (const LatticeState& state : out_.states) {
    for (const LatticeArc& arc : state.arcs) ++incoming[arc.next_state];
  }
  CHECK_EQ(incoming[0], 0);
  order.push_back(0);
  for (size_t i = 0; i < order.size(); ++i) {
    for (const LatticeArc& arc : out_.states[order[i]].arcs) {
      if (--incoming[arc.next_state] == 0) order.push_back(arc.next_state);
    }
  }
  CHECK_EQ(order.size(), out_.states.size());
  std::vector<int32_t> position(order.size());
  for (size_t i = 0; i < order.size(); ++i) position[order[i]] = static_cast<int32_t>(i);
  Lattice sorted;
  sorted.alignments = out_.alignments;
  for (const int32_t id : order) {
    LatticeState& state = sorted.states.emplace_back(out_.states[id]);
    for (LatticeArc& arc : state.arcs) arc.next_state = position[arc.next_state];
  }
  return sorted;
}

}  // namespace

Lattice Determinize(const Lattice& lattice, const DeterminizeOptions& options) {
  Lattice result;
  if (lattice.empty()) return result;
  double beam = options.beam;
  for (int beams = 1; !Determinizer(lattice, options).Run(beam, &result); ++beams) {
    beam = beams < kBeams ? 0.7 * beam : 0.0;
  }
  if (beam == 0.0 && options.beam > 0) {
    log::Warn("a lattice was determinised to its best path alone, as {} arcs, and the work for so many, allow no more",
              options.max_arcs);
  } else if (beam != options.beam) {
    log::Warn(
        "a lattice was determinised within a beam of {:.2f} instead of {:.2f} to stay below {} arcs, and the work for "
        "so many",
        beam, options.beam, options.max_arcs);
  }
  return Prune(result, {options.acoustic_scale, 0.0}, options.beam);
}

}  // namespace antiphon::decode
