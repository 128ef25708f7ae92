#include "decode/lattice/lm_rescore.h"

#include <map>
#include <utility>

#include "base/error.h"

namespace antiphon::decode {

LmRescorer::LmRescorer(NgramModel old_model, NgramModel new_model, const std::vector<std::string>& words)
    : old_model_(std::move(old_model)), new_model_(std::move(new_model)) {
  for (const NgramModel* model : {&old_model_, &new_model_}) {
    if (model->WordId("</s>") < 0) throw InputError("a language model for rescoring has no </s>");
  }
  for (const std::string& word : words) {
    old_ids_.push_back(old_model_.WordId(word));
    new_ids_.push_back(new_model_.WordId(word));
  }
}

LmRescorer::Step LmRescorer::Follow(const Histories& from, int32_t word) const {
  if (word == 0) return {0.0, from};
  const int32_t old_id = old_ids_.at(static_cast<size_t>(word)), new_id = new_ids_.at(static_cast<size_t>(word));
  if (old_id < 0 || new_id < 0) return {0.0, {NgramModel::kRoot, NgramModel::kRoot}};
  const auto old_step = old_model_.Step(from.old_state, old_id), new_step = new_model_.Step(from.new_state, new_id);
  return {static_cast<double>(old_step.log_prob) - new_step.log_prob, {old_step.next_state, new_step.next_state}};
}

double LmRescorer::EndCost(const Histories& at) const {
  return static_cast<double>(old_model_.Step(at.old_state, old_model_.WordId("</s>")).log_prob) -
         new_model_.Step(at.new_state, new_model_.WordId("</s>")).log_prob;
}

Lattice LmRescorer::Rescore(const Lattice& lattice, std::span<const int32_t> said, bool ends) const {
  Lattice result;
  if (lattice.empty()) return result;
  Histories begin{old_model_.StartState(), new_model_.StartState()};
  for (const int32_t word : said) begin = Follow(begin, word).next;
  // The histories with which each state is reached; arcs lead to higher states.
  std::vector<std::map<Histories, int32_t>> ids(lattice.states.size());
  ids[0].emplace(begin, 0);
  int32_t count = 0;
  for (size_t s = 0; s < lattice.states.size(); ++s) {
    for (auto& [histories, id] : ids[s]) {
      id = count++;
      for (const LatticeArc& arc : lattice.states[s].arcs)
        ids[arc.next_state].emplace(Follow(histories, arc.word).next, 0);
    }
  }
  result.states.resize(static_cast<size_t>(count));
  result.alignments = lattice.alignments;
  for (size_t s = 0; s < lattice.states.size(); ++s) {
    for (const auto& [histories, id] : ids[s]) {
      LatticeState& state = result.states[id];
      const LatticeState& from = lattice.states[s];
      for (LatticeArc arc : from.arcs) {
        const Step step = Follow(histories, arc.word);
        arc.cost.graph += step.cost;
        arc.next_state = ids[arc.next_state].at(step.next);
        state.arcs.push_back(arc);
      }
      state.is_final = from.is_final;
      state.final_cost = from.final_cost;
      state.final_alignment = from.final_alignment;
      if (from.is_final && ends) state.final_cost.graph += EndCost(histories);
    }
  }
  return result;
}

}  // namespace antiphon::decode
