// The hidden Markov model of each phone: its states, which of them share a distribution, and their transitions.
//
// States from 0; the first is the entry, the last emits nothing and has no transitions: reaching it leaves the phone.
// A state's pdf class says which of the phone's tied distributions it emits from (from 0). A state may have a class of
// its own for the frames that stay in it: the frame in which it is entered then emits from the first, all further ones
// from the second (the topology of chain models, one state per phone).
// Errors: InputError where a topology is not one that can be walked from entry to exit.
#pragma once

#include <cstdint>
#include <vector>

#include "base/options.h"
#include "hmm/phone_set.h"

namespace antiphon::hmm {

struct TopologyOptions {
  int num_states = 3;
  int num_silence_states = 5;
  double self_loop_probability = 0.75;

  template <class V>
  void Visit(V& v) {
    v("states", num_states, Range{1, 16}, "emitting states of a phone, left to right");
    v("silence-states", num_silence_states, Range{1, 16},
      "emitting states of a silence phone; from 4 on those between the first and the last are fully connected");
    v("self-loop-probability", self_loop_probability, Range{0.01, 0.99},
      "probability of staying in a state before training");
  }
};

struct TopologyTransition {
  int to = 0;
  float probability = 0;
  bool operator==(const TopologyTransition&) const = default;
};

struct TopologyState {
  int pdf_class = -1;  // −1: emits nothing (the last state)
  std::vector<TopologyTransition> transitions;
  int self_loop_pdf_class = -1;  // of frames that stay; −1: pdf_class

  int LoopClass() const { return self_loop_pdf_class >= 0 ? self_loop_pdf_class : pdf_class; }
  bool operator==(const TopologyState&) const = default;
};

using TopologyEntry = std::vector<TopologyState>;

/// num_states emitting states in a row, each with a self-loop.
TopologyEntry LeftToRightEntry(int num_states, double self_loop_probability);
/// First state leads to all but the last emitting one, the middle is fully connected, the last has a self-loop.
TopologyEntry ErgodicEntry(int num_states, double self_loop_probability);
/// One state that takes a frame or more: class 0 in the frame that enters it, class 1 in all others. Staying and
/// leaving are equally likely: a constant per frame, which says nothing about durations.
TopologyEntry ChainEntry();

class Topology {
 public:
  Topology() = default;
  Topology(const PhoneSet& phones, const TopologyOptions& options);
  /// entry_of_phone[phone], with phone 0 unused.
  Topology(std::vector<TopologyEntry> entries, std::vector<int> entry_of_phone);
  /// ChainEntry for all phones, silence too.
  static Topology Chain(const PhoneSet& phones);

  const TopologyEntry& Entry(int32_t phone) const;
  int NumPdfClasses(int32_t phone) const;
  int num_phones() const { return static_cast<int>(entry_of_phone_.size()) - 1; }
  /// Whether every phone is as ChainEntry says, but for probabilities.
  bool IsChain() const;

  const std::vector<TopologyEntry>& entries() const { return entries_; }
  const std::vector<int>& entry_of_phone() const { return entry_of_phone_; }
  bool operator==(const Topology&) const = default;

 private:
  void Check() const;
  std::vector<TopologyEntry> entries_;
  std::vector<int> entry_of_phone_ = {-1};
};

}  // namespace antiphon::hmm
