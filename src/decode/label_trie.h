// Strings of labels as nodes of a trie, so that they are stored once, and compared and extended in constant time.
//
// A string is a node id; equal strings have equal ids.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace antiphon::decode {

class LabelTrie {
 public:
  static constexpr int32_t kEmpty = 0;

  int32_t Append(int32_t string, int32_t label) {
    const uint64_t key = (static_cast<uint64_t>(static_cast<uint32_t>(string)) << 32) | static_cast<uint32_t>(label);
    const auto [it, added] = children_.emplace(key, static_cast<int32_t>(nodes_.size()));
    if (added) nodes_.push_back({string, label, nodes_[string].length + 1});
    return it->second;
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
  std::vector<Node> nodes_ = {{0, 0, 0}};
  std::unordered_map<uint64_t, int32_t> children_;  // only looked up
};

}  // namespace antiphon::decode
