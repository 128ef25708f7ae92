// Strings of labels as nodes of a trie, so that they are stored once, and compared and extended in constant time.
//
// A string is a node id; equal strings have equal ids.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace antiphon::decode {

class LabelTrie {
 public:
  static constexpr int32_t kEmpty = 0;

  int32_t Append(int32_t string, int32_t label) {
    const uint64_t key = (static_cast<uint64_t>(static_cast<uint32_t>(string)) << 32) | static_cast<uint32_t>(label);
    if (2 * nodes_.size() >= slots_.size()) Grow();
    Slot& slot = Find(key);
    if (slot.child < 0) {
      slot = {key, static_cast<int32_t>(nodes_.size())};
      nodes_.push_back({string, label, nodes_[string].length + 1});
    }
    return slot.child;
  }
  int32_t Append(int32_t string, std::span<const int32_t> labels) {
    for (const int32_t label : labels) string = Append(string, label);
    return string;
  }
  int32_t CommonPrefix(int32_t a, int32_t b) const {
    while (a != b) {
      int32_t& longer = nodes_[a].length >= nodes_[b].length ? a : b;
      longer = nodes_[longer].parent;
    }
    return a;
  }
  /// The labels of `string` behind its first `prefix_length`.
  std::vector<int32_t> Labels(int32_t string, int32_t prefix_length = 0) const {
    std::vector<int32_t> labels;
    for (; nodes_[string].length > prefix_length; string = nodes_[string].parent)
      labels.push_back(nodes_[string].label);
    std::reverse(labels.begin(), labels.end());
    return labels;
  }
  int32_t Length(int32_t string) const { return nodes_[string].length; }

 private:
  struct Node {
    int32_t parent;
    int32_t label;
    int32_t length;
  };
  struct Slot {
    uint64_t key = 0;  // parent and label
    int32_t child = -1;
  };

  // The slot of the key, or the empty one where it is to go.
  Slot& Find(uint64_t key) {
    // Fibonacci hashing: the upper bits of the product depend on all of the key.
    size_t i = (key * 0x9E3779B97F4A7C15U) >> shift_;
    while (slots_[i].child >= 0 && slots_[i].key != key) i = (i + 1) & (slots_.size() - 1);
    return slots_[i];
  }

  void Grow() {
    const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
    --shift_;
    for (const Slot& slot : old) {
      if (slot.child >= 0) Find(slot.key) = slot;
    }
  }

  std::vector<Node> nodes_ = {{0, 0, 0}};
  // Children by open addressing: most of a determinisation's time goes by here.
  int shift_ = 64 - 12;
  std::vector<Slot> slots_ = std::vector<Slot>(size_t{1} << 12);
};

}  // namespace antiphon::decode
