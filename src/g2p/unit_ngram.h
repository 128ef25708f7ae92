// The n-gram model of units as the search walks over it: compact, and in a model file.
//
// Made from a back-off model whose words are "<s>", "</s>" and the units; unit u is its word u + 2. Probabilities are
// rounded to half precision, in memory as in the file, so that a model that was saved and read is the same one, bit for
// bit. A *state* is a history that some longer n-gram has; states with equal futures are one.
//
// File (safetensors): "ngram.trie", the n-grams level by level as variable-length integers: of each n-gram the number
// of those that go on from it, and the differences of their last units; "ngram.log_probs" of all n-grams and
// "ngram.log_backoffs" of those that go on, in the same order. Units: nats.
// Threads: const methods may run together. Errors: InputError naming the file and what is wrong in it.
#pragma once

#include <cstdint>
#include <vector>

#include "decode/lm/ngram.h"
#include "math/safetensors.h"

namespace antiphon::g2p {

class UnitNgram {
 public:
  static constexpr int32_t kRoot = 0;

  UnitNgram() = default;
  /// The model's words are "<s>", "</s>" and then the units.
  explicit UnitNgram(const decode::NgramModel& model);
  static UnitNgram Read(const SafetensorsReader& reader, int32_t num_units, int order);
  void AddTo(SafetensorsWriter& writer) const;

  /// The history of a word's beginning.
  int32_t start() const { return start_; }
  struct Step {
    float log_prob;
    int32_t state;
  };
  /// log p(unit | history), and the history after it.
  Step Next(int32_t state, int32_t unit) const { return NextWord(state, unit + kFirstUnit); }
  /// log p(the word ends | history).
  float End(int32_t state) const { return NextWord(state, kEnd).log_prob; }

  // The same by hand, for a search that wants many units of one history: those that the history lists, and its shorter
  // history with what stands for going there. The root lists all units.
  template <class Visit>  // (unit, log_prob, state)
  void ForEachListed(int32_t state, Visit&& visit) const {
    for (int32_t child = nodes_[static_cast<size_t>(state)].first_child; child < end_of_children(state); ++child) {
      const Node& node = nodes_[static_cast<size_t>(child)];
      if (node.word >= kFirstUnit)
        visit(node.word - kFirstUnit, node.log_prob, HasChildren(child) ? child : node.backoff);
    }
  }
  Step Shorter(int32_t state) const {
    return {nodes_[static_cast<size_t>(state)].log_backoff, nodes_[static_cast<size_t>(state)].backoff};
  }

  int order() const { return order_; }
  int64_t num_ngrams() const { return static_cast<int64_t>(nodes_.size()) - 2; }

 private:
  static constexpr int32_t kBegin = 0, kEnd = 1, kFirstUnit = 2;
  struct Node {
    int32_t word = -1;
    int32_t first_child = 0;  // children of a node stand together, by rising word; they end where the next's begin
    int32_t backoff = kRoot;  // the longest shorter history with children
    float log_prob = 0.0F;
    float log_backoff = 0.0F;
  };
  Step NextWord(int32_t state, int32_t word) const;
  int32_t FindChild(int32_t node, int32_t word) const;
  int32_t end_of_children(int32_t node) const { return nodes_[static_cast<size_t>(node) + 1].first_child; }
  bool HasChildren(int32_t node) const { return nodes_[static_cast<size_t>(node)].first_child < end_of_children(node); }
  void Link();

  int order_ = 0;
  int32_t start_ = kRoot;
  std::vector<Node> nodes_;      // level by level; one more at the end, that only says where children end
  std::vector<int32_t> levels_;  // where each level begins; one more at the end
};

}  // namespace antiphon::g2p
