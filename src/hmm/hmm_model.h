// Everything about the states of a recogniser but their scores: phones, topology, context tree and transitions.
//
// It turns a phone in its context into states with pdf-ids and transition-ids; GMM and network files carry it as JSON.
// Threads: const methods may run together. Errors: InputError for JSON that does not describe a model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hmm/phone_set.h"
#include "hmm/topology.h"
#include "hmm/transition_model.h"
#include "hmm/tree.h"

namespace antiphon::hmm {

/// A run of frames of one phone.
struct PhoneSegment {
  int32_t phone = 0;
  int begin_frame = 0;
  int num_frames = 0;
  bool operator==(const PhoneSegment&) const = default;
};

class HmmModel {
 public:
  HmmModel() = default;
  /// Transition probabilities as in the topology.
  HmmModel(PhoneSet phones, Topology topology, ContextTree tree);

  const PhoneSet& phones() const { return phones_; }
  const Topology& topology() const { return topology_; }
  const ContextTree& tree() const { return tree_; }
  const TransitionModel& transitions() const { return transitions_; }
  TransitionModel& transitions() { return transitions_; }
  int num_pdfs() const { return tree_.num_pdfs(); }
  int context_width() const { return tree_.width(); }

  /// Transition state of one emitting state of the window's central phone.
  int32_t TransitionState(std::span<const int32_t> window, int hmm_state) const;
  /// Of left, central and right phone, those that make up a window of the tree.
  std::span<const int32_t> Window(std::span<const int32_t, 3> phones) const {
    return context_width() == 1 ? phones.subspan(1, 1) : phones.first(static_cast<size_t>(context_width()));
  }

  /// alignment[t] is a transition-id; throws InputError if it is not a walk through whole phones.
  std::vector<PhoneSegment> SplitToPhones(std::span<const int32_t> alignment) const;
  std::vector<int32_t> ToPdfs(std::span<const int32_t> alignment) const;
  /// The same states at the same frames, written in the transition-ids of `target`, which has the same phones and
  /// topology.
  std::vector<int32_t> ConvertAlignment(std::span<const int32_t> alignment, const HmmModel& target) const;

  /// Of phones, topology and tree, without the transition probabilities: what files must share that go together.
  std::string StructureChecksum() const;
  std::string ToJson() const;
  static HmmModel FromJson(std::string_view json);
  bool operator==(const HmmModel&) const = default;

 private:
  PhoneSet phones_;
  Topology topology_;
  ContextTree tree_;
  TransitionModel transitions_;
};

/// P(pdf-id) = its share of the frames in the pdf-id alignments, as log; unseen ones get `floor` of a frame each.
std::vector<float> LogPriors(std::span<const double> frame_counts, double floor = 0.1);

}  // namespace antiphon::hmm
