// Lattices: the hypotheses that survived the search, as an acyclic word graph with separate graph and acoustic costs.
//
// States are in topological order, 0 is the start. Costs are −log; acoustic costs are without the acoustic scale, so
// that they can be weighed anew. An arc carries the transition-ids of the frames that it spans; a final state may carry
// some, too. A *determinised* lattice has no arc without a word and no two arcs with the same word leaving one state:
// each word sequence is one path, with its best alignment.
//
// Threads: const methods may run together.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace antiphon::decode {

struct LatticeCost {
  double graph = 0.0;
  double acoustic = 0.0;
  /// What the search minimises.
  double Total(double acoustic_scale) const { return graph + acoustic_scale * acoustic; }
  LatticeCost operator+(const LatticeCost& o) const { return {graph + o.graph, acoustic + o.acoustic}; }
  LatticeCost operator-(const LatticeCost& o) const { return {graph - o.graph, acoustic - o.acoustic}; }
};

/// A run of transition-ids in Lattice::alignments.
struct AlignmentRange {
  uint32_t begin = 0;
  uint32_t size = 0;
};

struct LatticeArc {
  int32_t next_state = 0;
  int32_t word = 0;  // 0: none
  LatticeCost cost;
  AlignmentRange alignment;
};

struct LatticeState {
  std::vector<LatticeArc> arcs;
  bool is_final = false;
  LatticeCost final_cost;
  AlignmentRange final_alignment;
  template <class V>
  void VisitFields(V& v) {
    v(arcs);
    v(is_final);
    v(final_cost);
    v(final_alignment);
  }
};

struct Lattice {
  std::vector<LatticeState> states;
  std::vector<int32_t> alignments;

  bool empty() const { return states.empty(); }
  size_t NumArcs() const;
  std::span<const int32_t> Alignment(AlignmentRange range) const {
    return std::span(alignments).subspan(range.begin, range.size);
  }
  AlignmentRange AddAlignment(std::span<const int32_t> transition_ids);
  template <class V>
  void VisitFields(V& v) {
    v(states);
    v(alignments);
  }
};

/// One way through a lattice.
struct LatticePath {
  std::vector<int32_t> words;
  std::vector<int32_t> alignment;  // one transition-id per frame
  LatticeCost cost;
};

/// How costs are weighed: graph + acoustic_scale · acoustic + word_penalty per word; and by what a result is chosen.
struct LatticeWeights {
  double acoustic_scale = 0.1;
  double word_penalty = 0.0;
  /// 0: the likeliest path; else the path with the fewest expected word errors, probabilities being those of costs
  /// times this (ChosenPath).
  double risk_scale = 0.0;
};

/// The cheapest path; among equal ones, the one whose arcs come first. The lattice must not be empty.
LatticePath BestPath(const Lattice& lattice, const LatticeWeights& weights);

/// The `count` cheapest paths, cheapest first. For a determinised lattice their word sequences are distinct.
std::vector<LatticePath> NBest(const Lattice& lattice, const LatticeWeights& weights, int count);

/// Least number of word errors of any path against `reference`.
int64_t OracleErrors(const Lattice& lattice, std::span<const int32_t> reference);

/// −log of the sum over all paths of exp(−cost).
double TotalCost(const Lattice& lattice, const LatticeWeights& weights);

/// Best cost from each state to the end (infinite where there is none).
std::vector<double> BackwardCosts(const Lattice& lattice, const LatticeWeights& weights);

/// A copy without what lies on no path within `beam` of the best one; states keep their order.
Lattice Prune(const Lattice& lattice, const LatticeWeights& weights, double beam);

struct DeterminizeOptions {
  double acoustic_scale = 0.1;  // decides which alignment of a word sequence is the best
  double beam = 8.0;
  int64_t max_arcs = 200000;  // narrows the beam rather than grow beyond; the best path is whole in any case
};

/// Each word sequence within the beam once, with its best cost and alignment.
/// Source: Povey et al., Generating exact lattices in the WFST framework, ICASSP 2012.
Lattice Determinize(const Lattice& lattice, const DeterminizeOptions& options);

}  // namespace antiphon::decode
