// A graph as one search walks over it: mapped whole, or put together as the search comes along (composition.h).
//
// States and arcs are numbered. Those of a static graph are all there; of a graph that is put together, states are made
// by Next and arcs by Expanded, which may move all of them in memory, and both are renumbered by a collection.
//
// Threads: one per search. The graph must outlive it.
#pragma once

#include <cstdint>
#include <memory>

#include "decode/graph/composition.h"
#include "decode/graph/graph.h"

namespace antiphon::decode {

class GraphWalk {
 public:
  explicit GraphWalk(const Graph& graph) : start_(graph.start()) {
    if (graph.parts() != nullptr) {
      composition_ = std::make_unique<Composition>(graph.parts());
      start_ = Composition::kStart;
      Refresh();
    } else {
      states_ = graph.states().data();
      arcs_ = graph.arcs().data();
    }
  }

  int32_t start() const { return start_; }
  /// Of a state that is not expanded, the end comes before emitting_begin; its final cost is known.
  const GraphState* states() const { return states_; }
  const GraphArc* arcs() const { return arcs_; }
  /// With its arcs. References and pointers into arcs do not hold any more.
  GraphState Expanded(int32_t state) {
    const GraphState& s = states_[state];
    if (s.end >= s.emitting_begin) [[likely]]
      return s;
    composition_->Expand(state);
    Refresh();
    return states_[state];
  }
  /// The state that an arc of an expanded state leads to. References and pointers into states do not hold any more.
  int32_t Next(uint32_t arc) {
    const int32_t next = arcs_[arc].next_state;
    if (next >= 0) [[likely]]
      return next;
    const int32_t made = composition_->Reach(arc);
    Refresh();
    return made;
  }
  /// Also where it is not known yet.
  bool MayHaveEpsilons(int32_t state) const { return states_[state].epsilon_begin < states_[state].emitting_begin; }

  /// Bytes that grow with the search; 0 for a static graph.
  size_t memory() const { return composition_ ? composition_->memory() : 0; }
  /// As if nothing had been reached yet, memory given back; no id holds any more.
  void Forget() {
    if (!composition_) return;
    composition_->Clear();
    Refresh();
  }
  /// Calls keep(state ids, arc ids) by which the caller exchanges its ids for new ones; all others are forgotten.
  template <class Keep>
  void Collect(const Keep& keep) {
    if (!composition_) return;
    composition_->BeginCollection();
    keep([&](int32_t state) { return composition_->KeepState(state); },
         [&](uint32_t arc) { return composition_->KeepArc(arc); });
    composition_->EndCollection();
    Refresh();
  }

 private:
  void Refresh() {
    states_ = composition_->states().data();
    arcs_ = composition_->arcs().data();
  }

  int32_t start_ = 0;
  const GraphState* states_ = nullptr;
  const GraphArc* arcs_ = nullptr;
  std::unique_ptr<Composition> composition_;
};

}  // namespace antiphon::decode
