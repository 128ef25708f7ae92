// Transition probabilities, and the transition-ids that alignments and graphs are written in.
//
// A transition state is a (phone, state, pdf-id, pdf-id of the self-loop) that the tree can give, from 1; a
// transition-id is one of its transitions, from 1 (0 is epsilon). A transition-id therefore tells phone, state, pdf-id
// and whether it is a self-loop. The two pdf-ids are one, but in topologies with a class for frames that stay. Order
// within an alignment: each visit of a state begins with the transition-id by which the state will be left, and repeats
// the self-loop for every further frame ("reordered"), so that a graph needs its self-loops only behind the entering
// arc. Units: natural logarithms. Threads: const methods may run together. Source: Povey et al., The Kaldi speech
// recognition toolkit, ASRU 2011.
#pragma once

#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "base/options.h"
#include "hmm/topology.h"
#include "hmm/tree.h"

namespace antiphon::hmm {

struct TransitionUpdateOptions {
  double floor = 0.01;
  double min_count = 5;
  template <class V>
  void Visit(V& v) {
    v("transition-floor", floor, Range{0, 0.3}, "least probability of a transition");
    v("transition-min-count", min_count, Range{0, 1e9},
      "frames in a state from which on its transitions are estimated");
  }
};

class TransitionModel {
 public:
  TransitionModel() = default;
  /// Probabilities as the topology gives them.
  TransitionModel(const Topology& topology, const ContextTree& tree);

  int num_transition_ids() const { return static_cast<int>(state_of_id_.size()) - 1; }
  int num_transition_states() const { return static_cast<int>(states_.size()) - 1; }
  int num_pdfs() const { return num_pdfs_; }

  // Of a transition-id.
  int32_t Pdf(int32_t id) const { return IsSelfLoop(id) ? State(id).loop_pdf_id : State(id).pdf_id; }
  int32_t Phone(int32_t id) const { return State(id).phone; }
  int HmmState(int32_t id) const { return State(id).hmm_state; }
  bool IsSelfLoop(int32_t id) const { return self_loop_[static_cast<size_t>(id)]; }
  /// Leaves the phone.
  bool IsFinal(int32_t id) const { return final_[static_cast<size_t>(id)]; }
  int32_t TransitionState(int32_t id) const { return state_of_id_[static_cast<size_t>(id)]; }
  float LogProb(int32_t id) const { return log_prob_[static_cast<size_t>(id)]; }
  /// log P(transition | not the self-loop); not for self-loops.
  float LogProbWithoutSelfLoop(int32_t id) const;

  // Of a transition state.
  /// 0 if the tree cannot give it.
  int32_t FindState(int32_t phone, int hmm_state, int32_t pdf_id, int32_t loop_pdf_id) const;
  /// transition: index into the topology's list for the state.
  int32_t TransitionId(int32_t state, int transition) const {
    return states_[static_cast<size_t>(state)].first_id + transition;
  }
  int NumTransitions(int32_t state) const;
  /// Of the frame that enters it.
  int32_t EntryPdf(int32_t state) const { return states_[static_cast<size_t>(state)].pdf_id; }
  /// 0 if the state has none.
  int32_t SelfLoopOf(int32_t state) const { return self_loop_of_[static_cast<size_t>(state)]; }
  /// log(1 − P(self-loop)).
  float LeaveLogProb(int32_t state) const { return leave_log_prob_[static_cast<size_t>(state)]; }

  bool IsValid(int32_t id) const { return id >= 1 && id <= num_transition_ids(); }

  /// counts[transition-id] (size num_transition_ids() + 1). Returns the gain in log-likelihood per counted transition.
  double Update(std::span<const double> counts, const TransitionUpdateOptions& options);

  /// By transition-id, [0] unused; for files.
  std::span<const float> log_probs() const { return log_prob_; }
  /// Throws InputError unless every state's probabilities add up to 1.
  void SetLogProbs(std::vector<float> log_probs);

  bool operator==(const TransitionModel& other) const;

 private:
  struct StateInfo {
    int32_t phone;
    int32_t hmm_state;
    int32_t pdf_id;
    int32_t loop_pdf_id;
    int32_t first_id;
    auto Key() const { return std::tuple(phone, hmm_state, pdf_id, loop_pdf_id); }
    bool operator==(const StateInfo&) const = default;
  };
  const StateInfo& State(int32_t id) const {
    return states_[static_cast<size_t>(state_of_id_[static_cast<size_t>(id)])];
  }
  void Derive();

  int num_pdfs_ = 0;
  std::vector<StateInfo> states_;  // sorted; [0] unused
  std::vector<int32_t> state_of_id_ = {0};
  std::vector<bool> self_loop_ = {false};
  std::vector<bool> final_ = {false};
  std::vector<float> log_prob_ = {0};
  std::vector<int32_t> self_loop_of_;  // by transition state
  std::vector<float> leave_log_prob_;  // by transition state
};

}  // namespace antiphon::hmm
