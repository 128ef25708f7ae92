#include "hmm/graph/hmm_fst.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "hmm/graph/openfst.h"

namespace antiphon::hmm {
namespace {

using Arc = fst::StdArc;

// Adds the states of one window: from the loop state by the first transition-id (which carries the label) and back to
// it.
void AddWindow(const HmmModel& model, const ContextLabel& label, int32_t index, int loop, fst::StdVectorFst* h) {
  const int32_t phone = label.window[static_cast<size_t>(model.tree().central())];
  const TopologyEntry& entry = model.topology().Entry(phone);
  const TransitionModel& transitions = model.transitions();
  std::vector<int> place(entry.size(), -1);
  place.back() = loop;
  for (size_t s = 1; s + 1 < entry.size(); ++s) place[s] = h->AddState();
  const auto reentered = [&](const TopologyState& state, size_t s) {
    return s != 0 &&
           std::any_of(state.transitions.begin(), state.transitions.end(), [](const auto& t) { return t.to == 0; });
  };
  for (size_t s = 0; s + 1 < entry.size(); ++s) {
    if (reentered(entry[s], s)) place[0] = 0;
  }
  const bool own_entry = place[0] == 0;
  if (own_entry) {
    place[0] = h->AddState();
    h->AddArc(loop, Arc(0, index, 0, place[0]));
  } else {
    place[0] = loop;
  }
  for (size_t s = 0; s + 1 < entry.size(); ++s) {
    const int32_t state = model.TransitionState(label.window, static_cast<int>(s));
    for (size_t t = 0; t < entry[s].transitions.size(); ++t) {
      const int32_t id = transitions.TransitionId(state, static_cast<int>(t));
      if (transitions.IsSelfLoop(id)) continue;
      const int32_t output = s == 0 && !own_entry ? index : 0;
      const int to = place[static_cast<size_t>(entry[s].transitions[t].to)];
      h->AddArc(place[s], Arc(id, output, -transitions.LogProbWithoutSelfLoop(id), to));
    }
  }
}

// What enters a state: nothing yet, one class (a transition state, or 0 for epsilon and the start), or several.
constexpr int32_t kUndecided = -1;
constexpr int32_t kMixed = -2;

}  // namespace

std::vector<int32_t> BuildHmmFst(const HmmModel& model, std::span<const ContextLabel> labels, fst::StdVectorFst* h) {
  h->DeleteStates();
  const int loop = h->AddState();
  h->SetStart(loop);
  h->SetFinal(loop, Arc::Weight::One());
  std::vector<int32_t> disambiguation;
  for (size_t i = 1; i < labels.size(); ++i) {
    const auto index = static_cast<int32_t>(i);
    if (labels[i].window.empty()) {
      disambiguation.push_back(model.transitions().num_transition_ids() + 1 +
                               static_cast<int32_t>(disambiguation.size()));
      h->AddArc(loop, Arc(disambiguation.back(), index, 0, loop));
    } else {
      AddWindow(model, labels[i], index, loop, h);
    }
  }
  fst::ArcSort(h, fst::OLabelCompare<Arc>());
  return disambiguation;
}

void AddSelfLoops(const HmmModel& model, double self_loop_scale, fst::StdVectorFst* graph) {
  const TransitionModel& transitions = model.transitions();
  const auto class_of = [&](int32_t label) {
    CHECK(label == 0 || transitions.IsValid(label)) << "input label " << label << " is no transition-id";
    CHECK(label == 0 || !transitions.IsSelfLoop(label)) << "the graph has self-loops already";
    return label == 0 ? 0 : transitions.TransitionState(label);
  };
  const int num_states = graph->NumStates();
  std::vector<int32_t> entering(static_cast<size_t>(num_states), kUndecided);
  const auto note = [&](int state, int32_t c) {
    int32_t& have = entering[static_cast<size_t>(state)];
    have = have == kUndecided || have == c ? c : kMixed;
  };
  if (num_states > 0) note(graph->Start(), 0);
  for (int s = 0; s < num_states; ++s) {
    for (fst::ArcIterator<fst::StdVectorFst> it(*graph, s); !it.Done(); it.Next())
      note(it.Value().nextstate, class_of(it.Value().ilabel));
  }
  // A state that several classes enter gets an ante-room per class.
  std::map<std::pair<int, int32_t>, int> anteroom;
  for (int s = 0; s < num_states; ++s) {
    for (fst::MutableArcIterator<fst::StdVectorFst> it(graph, s); !it.Done(); it.Next()) {
      Arc arc = it.Value();
      const int32_t c = class_of(arc.ilabel);
      if (c == 0 || entering[static_cast<size_t>(arc.nextstate)] != kMixed) continue;
      const auto [room, added] =
          anteroom.emplace(std::pair(arc.nextstate, c), num_states + static_cast<int>(anteroom.size()));
      arc.nextstate = room->second;
      it.SetValue(arc);
    }
  }
  std::vector<std::pair<int, int32_t>> rooms(anteroom.size());
  for (const auto& [key, state] : anteroom) rooms[static_cast<size_t>(state - num_states)] = key;
  for (const auto& [target, c] : rooms) {
    const int state = graph->AddState();
    graph->AddArc(state, Arc(0, 0, 0, target));
    entering.push_back(c);
  }
  for (int s = 0; s < graph->NumStates(); ++s) {
    const int32_t c = entering[static_cast<size_t>(s)];
    if (c <= 0) continue;
    const int32_t loop = transitions.SelfLoopOf(c);
    if (loop == 0) continue;
    const auto leave = static_cast<float>(-self_loop_scale * static_cast<double>(transitions.LeaveLogProb(c)));
    for (fst::MutableArcIterator<fst::StdVectorFst> it(graph, s); !it.Done(); it.Next()) {
      Arc arc = it.Value();
      arc.weight = fst::Times(arc.weight, Arc::Weight(leave));
      it.SetValue(arc);
    }
    if (graph->Final(s) != Arc::Weight::Zero()) graph->SetFinal(s, fst::Times(graph->Final(s), Arc::Weight(leave)));
    graph->AddArc(
        s, Arc(loop, 0, static_cast<float>(-self_loop_scale * static_cast<double>(transitions.LogProb(loop))), s));
  }
}

}  // namespace antiphon::hmm
