// G of a graph that is put together during the search: which word may follow which history, at what cost.
//
// States are histories. A state has at most one arc for a word, and may back off to another state, without a cycle. The
// arcs lie in arrays of their own kind, ascending by word within a state, mapped from a safetensors file or in memory:
// 12 bytes each. Words that were added at run time are said where nothing is left to back off to.
//
// Units: costs in nats, −log; infinite final costs where no sentence ends.
// Threads: const methods may run together.
// Errors: InputError naming file and what does not fit.
#pragma once

#include <fst/fst-decl.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/file.h"

namespace antiphon::decode {

class WordAutomaton {
 public:
  WordAutomaton() = default;
  /// `grammar`: word ids, `backoff_word` : ε on back-off arcs. What is not deterministic is determinised; InputError if
  /// it cannot be, or would get more than `max_states` states.
  static WordAutomaton FromFst(const fst::StdVectorFst& grammar, int32_t backoff_word, int64_t max_states);
  /// Of words 1 … num_words.
  static WordAutomaton Load(const std::filesystem::path& path, int32_t num_words);
  void Save(AtomicFile& file) const;

  int32_t start() const { return start_; }
  int32_t num_states() const { return static_cast<int32_t>(final_costs_.size()); }
  int64_t num_arcs() const { return static_cast<int64_t>(words_.size()); }

  struct Arcs {
    std::span<const int32_t> words;
    std::span<const float> costs;
    std::span<const int32_t> next;
  };
  /// Without added words.
  Arcs ArcsOf(int32_t state) const {
    const auto begin = static_cast<size_t>(first_arcs_[static_cast<size_t>(state)]);
    const size_t count = static_cast<size_t>(first_arcs_[static_cast<size_t>(state) + 1]) - begin;
    return {words_.subspan(begin, count), costs_.subspan(begin, count), next_.subspan(begin, count)};
  }
  /// −1: none.
  int32_t Backoff(int32_t state) const { return backoffs_[static_cast<size_t>(state)]; }
  float BackoffCost(int32_t state) const { return backoff_costs_[static_cast<size_t>(state)]; }
  float FinalCost(int32_t state) const { return final_costs_[static_cast<size_t>(state)]; }

  /// Where everything ends up that backs off from the start; added words are said there, and lead there.
  int32_t base_state() const { return base_state_; }
  using AddedWord = std::pair<int32_t, float>;  // and its cost
  const std::vector<AddedWord>& added() const { return added_; }
  /// Adds words that the base state does not have yet.
  void AddWords(const std::vector<AddedWord>& words);

  /// By word id: whether it can be said.
  std::vector<bool> SaidWords(int32_t num_words) const;

 private:
  struct Owned;
  void FindBase();
  void Check(int32_t num_words) const;

  std::shared_ptr<const void> owner_;
  int32_t start_ = 0;
  int32_t base_state_ = 0;
  std::span<const int32_t> first_arcs_;  // one more than states
  std::span<const int32_t> words_, next_;
  std::span<const float> costs_;
  std::span<const int32_t> backoffs_;
  std::span<const float> backoff_costs_, final_costs_;
  std::vector<AddedWord> added_;
};

}  // namespace antiphon::decode
