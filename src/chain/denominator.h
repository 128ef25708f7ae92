// The denominator graph: all that may be said, as states, pdf-ids and probabilities, without words.
//
// The phone n-grams (hmm/graph/phone_ngrams.h) expanded by the model's left context and topology. A state stands for
// "inside this phone": each frame either stays (a self-loop with the phone's loop pdf-id, factor 1) or enters the next
// phone (an arc with its entry pdf-id and the n-gram's probability). Transition probabilities play no part. States with
// equal futures are one; probabilities are not pushed.
//
// A chunk of speech may begin and end anywhere: the initial probabilities are how often a walk is in each state, on
// average over a hundred frames from the beginning, with each state's arcs made to sum to 1; every state is final.
//
// Ids: states, pdf-ids from 0; phones from 1. State 0 is the beginning of an utterance, with phone 0 and no self-loop.
// File: safetensors with phones, loop_pdfs, initial [states]; from, to, pdf_ids, probabilities [arcs]; and the checksum
// of the model's structure.
// Threads: immutable once made. Errors: InputError for files of another model, and models without left biphones.
// Source: Povey et al., Purely sequence-trained neural networks for ASR based on lattice-free MMI, Interspeech 2016.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "hmm/graph/phone_ngrams.h"
#include "hmm/hmm_model.h"

namespace antiphon::chain {

/// Throws InputError unless the model has the chain topology and looks at left neighbours at most.
void RequireChainModel(const hmm::HmmModel& model);

class DenominatorGraph {
 public:
  struct State {
    int32_t phone = 0;      // 0: nothing yet
    int32_t loop_pdf = -1;  // −1: cannot stay
    float initial = 0;      // sum to 1
    bool operator==(const State&) const = default;
  };
  /// Enters the phone of state `to`.
  struct Arc {
    int32_t from = 0;
    int32_t to = 0;
    int32_t pdf_id = 0;
    float probability = 0;
    bool operator==(const Arc&) const = default;
  };

  static DenominatorGraph Build(const hmm::HmmModel& model, const hmm::PhoneNgrams& ngrams);
  /// For tests and files: arcs in any order.
  DenominatorGraph(std::vector<State> states, std::vector<Arc> arcs, int num_pdfs);

  void Save(const std::filesystem::path& path, const hmm::HmmModel& model) const;
  /// `model` must be that of Save.
  static DenominatorGraph Load(const std::filesystem::path& path, const hmm::HmmModel& model);

  int num_pdfs() const { return num_pdfs_; }
  std::span<const State> states() const { return states_; }
  /// By source state, then by the phone that is entered.
  std::span<const Arc> arcs() const { return arcs_; }
  std::span<const Arc> ArcsFrom(int32_t state) const {
    const auto s = static_cast<size_t>(state);
    return std::span(arcs_).subspan(first_arc_[s], first_arc_[s + 1] - first_arc_[s]);
  }
  /// The arc by which the phone is entered; null if it cannot follow.
  const Arc* Entering(int32_t state, int32_t phone) const;
  /// States inside a phone that stays with this pdf-id; phone 0 and −1: the beginning.
  std::span<const int32_t> StatesOf(int32_t phone, int32_t loop_pdf) const;

 private:
  int num_pdfs_ = 0;
  std::vector<State> states_;
  std::vector<Arc> arcs_;
  std::vector<size_t> first_arc_;                                       // by source state, and the end
  std::map<std::pair<int32_t, int32_t>, std::vector<int32_t>> places_;  // by phone and loop pdf-id
};

}  // namespace antiphon::chain
