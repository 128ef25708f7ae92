#include "decode/lattice/lattice.h"

#include <algorithm>
#include <limits>
#include <queue>

#include "base/check.h"
#include "base/log_add.h"
#include "decode/lattice/lattice_walk.h"

namespace antiphon::decode {

size_t Lattice::NumArcs() const {
  size_t count = 0;
  for (const LatticeState& state : states) count += state.arcs.size();
  return count;
}

AlignmentRange Lattice::AddAlignment(std::span<const int32_t> transition_ids) {
  const AlignmentRange range{static_cast<uint32_t>(alignments.size()), static_cast<uint32_t>(transition_ids.size())};
  alignments.insert(alignments.end(), transition_ids.begin(), transition_ids.end());
  return range;
}

std::vector<double> BackwardCosts(const Lattice& lattice, const LatticeWeights& weights) {
  std::vector<double> cost(lattice.states.size(), kUnreached);
  for (size_t s = lattice.states.size(); s-- > 0;) {
    cost[s] = FinalCost(lattice.states[s], weights);
    for (const LatticeArc& arc : lattice.states[s].arcs) {
      cost[s] = std::min(cost[s], ArcCost(arc, weights) + cost[arc.next_state]);
    }
  }
  return cost;
}

LatticePath BestPath(const Lattice& lattice, const LatticeWeights& weights) {
  CHECK(!lattice.empty());
  const std::vector<double> backward = BackwardCosts(lattice, weights);
  LatticePath path;
  for (const LatticeState* state = &lattice.states[0];;) {
    const LatticeArc* best_arc = nullptr;
    double best = FinalCost(*state, weights);
    for (const LatticeArc& arc : state->arcs) {
      if (const double cost = ArcCost(arc, weights) + backward[arc.next_state]; cost < best)
        best = cost, best_arc = &arc;
    }
    if (best_arc == nullptr) {
      AppendFinal(lattice, *state, path);
      return path;
    }
    AppendArc(lattice, *best_arc, path);
    state = &lattice.states[best_arc->next_state];
  }
}

std::vector<LatticePath> NBest(const Lattice& lattice, const LatticeWeights& weights, int count) {
  // A*: partial paths in the order of their cost with the best completion, which backward costs give exactly.
  struct Partial {
    double forward;
    double total;
    int32_t state;   // −1: complete
    int32_t parent;  // index into `partials`, −1: none
    const LatticeArc* arc;
  };
  std::vector<LatticePath> paths;
  if (lattice.empty() || count <= 0) return paths;
  const std::vector<double> backward = BackwardCosts(lattice, weights);
  std::vector<Partial> partials = {{0.0, backward[0], 0, -1, nullptr}};
  const auto later = [&](int32_t a, int32_t b) {
    return partials[a].total != partials[b].total ? partials[a].total > partials[b].total : a > b;
  };
  std::priority_queue<int32_t, std::vector<int32_t>, decltype(later)> queue(later);
  queue.push(0);
  while (!queue.empty() && paths.size() < static_cast<size_t>(count)) {
    const int32_t index = queue.top();
    queue.pop();
    const Partial partial = partials[index];
    const auto push = [&](const Partial& next) {
      if (next.total == kUnreached) return;
      partials.push_back(next);
      queue.push(static_cast<int32_t>(partials.size()) - 1);
    };
    if (partial.state < 0) {
      std::vector<const LatticeArc*> arcs;
      const int32_t last = partials[partial.parent].state;
      for (int32_t p = partial.parent; partials[p].arc != nullptr; p = partials[p].parent)
        arcs.push_back(partials[p].arc);
      LatticePath& path = paths.emplace_back();
      for (auto it = arcs.rbegin(); it != arcs.rend(); ++it) AppendArc(lattice, **it, path);
      AppendFinal(lattice, lattice.states[last], path);
      continue;
    }
    const LatticeState& state = lattice.states[partial.state];
    if (state.is_final) push({0.0, partial.forward + FinalCost(state, weights), -1, index, nullptr});
    for (const LatticeArc& arc : state.arcs) {
      const double forward = partial.forward + ArcCost(arc, weights);
      push({forward, forward + backward[arc.next_state], arc.next_state, index, &arc});
    }
  }
  return paths;
}

int64_t OracleErrors(const Lattice& lattice, std::span<const int32_t> reference) {
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max() / 2;
  const size_t length = reference.size() + 1;
  // errors[state · length + r]: least errors of a path to the state against the first r words.
  std::vector<int64_t> errors(lattice.states.size() * length, kFar);
  int64_t best = kFar;
  if (lattice.empty()) return static_cast<int64_t>(reference.size());
  for (size_t r = 0; r < length; ++r) errors[r] = static_cast<int64_t>(r);
  for (size_t s = 0; s < lattice.states.size(); ++s) {
    int64_t* const row = &errors[s * length];
    for (size_t r = 1; r < length; ++r) row[r] = std::min(row[r], row[r - 1] + 1);
    if (lattice.states[s].is_final) best = std::min(best, row[length - 1]);
    for (const LatticeArc& arc : lattice.states[s].arcs) {
      int64_t* const next = &errors[static_cast<size_t>(arc.next_state) * length];
      for (size_t r = 0; r < length; ++r) {
        if (arc.word == 0) {
          next[r] = std::min(next[r], row[r]);
          continue;
        }
        next[r] = std::min(next[r], row[r] + 1);
        if (r > 0) next[r] = std::min(next[r], row[r - 1] + (arc.word == reference[r - 1] ? 0 : 1));
      }
    }
  }
  return best;
}

double TotalCost(const Lattice& lattice, const LatticeWeights& weights) {
  if (lattice.empty()) return kUnreached;
  std::vector<double> cost(lattice.states.size());
  for (size_t s = lattice.states.size(); s-- > 0;) {
    cost[s] = FinalCost(lattice.states[s], weights);
    for (const LatticeArc& arc : lattice.states[s].arcs) {
      cost[s] = LogAddCosts(cost[s], ArcCost(arc, weights) + cost[arc.next_state]);
    }
  }
  return cost[0];
}

Lattice Prune(const Lattice& lattice, const LatticeWeights& weights, double beam) {
  Lattice pruned;
  if (lattice.empty()) return pruned;
  const std::vector<double> backward = BackwardCosts(lattice, weights);
  // Rounding differs between the two directions of summing.
  const double limit = backward[0] + beam + 1e-9 * std::abs(backward[0]);
  std::vector<double> forward(lattice.states.size(), kUnreached);
  forward[0] = 0.0;
  std::vector<int32_t> new_id(lattice.states.size(), -1);
  for (size_t s = 0; s < lattice.states.size(); ++s) {
    if (forward[s] + backward[s] > limit) continue;
    new_id[s] = static_cast<int32_t>(pruned.states.size());
    LatticeState& state = pruned.states.emplace_back();
    const LatticeState& old = lattice.states[s];
    if (old.is_final && forward[s] + FinalCost(old, weights) <= limit) {
      state.is_final = true;
      state.final_cost = old.final_cost;
      state.final_alignment = pruned.AddAlignment(lattice.Alignment(old.final_alignment));
    }
    for (const LatticeArc& arc : old.arcs) {
      const double cost = forward[s] + ArcCost(arc, weights);
      if (cost + backward[arc.next_state] > limit) continue;
      forward[arc.next_state] = std::min(forward[arc.next_state], cost);
      LatticeArc& kept = state.arcs.emplace_back(arc);
      kept.alignment = pruned.AddAlignment(lattice.Alignment(arc.alignment));
    }
  }
  for (LatticeState& state : pruned.states) {
    for (LatticeArc& arc : state.arcs) arc.next_state = new_id[arc.next_state];
  }
  return pruned;
}

}  // namespace antiphon::decode
