#include "decode/lm/ngram.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/error.h"

namespace antiphon::decode {
namespace {

constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

uint64_t Key(int32_t node, int32_t word) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(node)) << 32) | static_cast<uint32_t>(word);
}

}  // namespace

NgramModel::NgramModel(int order) : order_(order), nodes_{{-1, -1, -1, 0, 0.0F, 0.0F, false}} {
  CHECK(order >= 1 && order <= kMaxOrder) << order;
}

int32_t NgramModel::AddWord(std::string_view word) {
  const auto [it, added] = word_ids_.emplace(word, static_cast<int32_t>(words_.size()));
  if (added) words_.emplace_back(word);
  return it->second;
}

int32_t NgramModel::WordId(std::string_view word) const {
  const auto it = word_ids_.find(std::string(word));
  return it == word_ids_.end() ? -1 : it->second;
}

int32_t NgramModel::FindChild(int32_t node, int32_t word) const {
  const auto it = children_.find(Key(node, word));
  return it == children_.end() ? -1 : it->second;
}

int32_t NgramModel::AddNode(int32_t parent, int32_t word) {
  const auto id = static_cast<int32_t>(nodes_.size());
  nodes_.push_back({parent, word, kRoot, nodes_[parent].depth + 1, kUnknown, 0.0F, false});
  nodes_[parent].has_children = true;
  children_.emplace(Key(parent, word), id);
  return id;
}

void NgramModel::AddNgram(std::span<const int32_t> words, float log_prob, float log_backoff) {
  CHECK(!words.empty() && words.size() <= static_cast<size_t>(order_)) << words.size();
  int32_t node = kRoot;
  for (const int32_t word : words) {
    const int32_t child = FindChild(node, word);
    node = child >= 0 ? child : AddNode(node, word);
  }
  if (!std::isnan(nodes_[node].log_prob)) throw InputError("the n-gram stands here a second time");
  nodes_[node].log_prob = log_prob;
  nodes_[node].log_backoff = log_backoff;
}

void NgramModel::Finish() {
  for (size_t i = 1; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    // A parent's suffix is known here: parents come first.
    for (int32_t shorter = node.parent; shorter != kRoot;) {
      shorter = nodes_[shorter].backoff_node;
      if (const int32_t found = FindChild(shorter, node.word); found >= 0) {
        node.backoff_node = found;
        break;
      }
    }
  }
  FillMissingProbabilities();
}

void NgramModel::FillMissingProbabilities() {
  for (int depth = 1; depth <= order_; ++depth) {
    for (Node& node : nodes_) {
      if (node.depth != depth || !std::isnan(node.log_prob)) continue;
      node.log_prob = kImpossible;
      if (depth > 1) {
        const Node& history = nodes_[node.parent];
        node.log_prob = history.log_backoff + Step(history.backoff_node, node.word).log_prob;
      }
    }
  }
}

int64_t NgramModel::NumNgrams(int order) const {
  return std::count_if(nodes_.begin(), nodes_.end(), [&](const Node& n) { return n.depth == order; });
}

int32_t NgramModel::StartState() const {
  const int32_t begin = WordId("<s>");
  if (begin < 0 || order_ == 1) return kRoot;
  const int32_t node = FindChild(kRoot, begin);
  return node < 0 ? kRoot : node;
}

NgramModel::Transition NgramModel::Step(int32_t state, int32_t word) const {
  float log_prob = 0.0F;
  while (true) {
    if (const int32_t child = FindChild(state, word); child >= 0) {
      const Node& node = nodes_[child];
      return {log_prob + node.log_prob, node.depth < order_ ? child : node.backoff_node};
    }
    if (state == kRoot) return {kImpossible, kRoot};
    log_prob += nodes_[state].log_backoff;
    state = nodes_[state].backoff_node;
  }
}

float NgramModel::LogProb(std::span<const int32_t> history, int32_t word) const {
  const size_t length = std::min(history.size(), static_cast<size_t>(order_ - 1));
  for (size_t first = history.size() - length;; ++first) {
    int32_t node = kRoot;
    for (size_t i = first; i < history.size() && node >= 0; ++i) node = FindChild(node, history[i]);
    if (node >= 0) return Step(node, word).log_prob;
  }
}

double PerplexityResult::Perplexity() const {
  const auto events = static_cast<double>(words - oov_words + sentences);
  return events > 0 ? std::exp(-log_prob / events) : 1.0;
}

PerplexityResult MeasurePerplexity(const NgramModel& model, const std::vector<std::vector<std::string>>& sentences) {
  PerplexityResult result;
  const int32_t end = model.WordId("</s>");
  if (end < 0) throw InputError("the language model has no </s>");
  for (const auto& sentence : sentences) {
    ++result.sentences;
    int32_t state = model.StartState();
    for (const std::string& word : sentence) {
      ++result.words;
      const int32_t id = model.WordId(word);
      const auto step = id >= 0 ? model.Step(state, id) : NgramModel::Transition{0.0F, NgramModel::kRoot};
      result.log_prob += step.log_prob;
      result.oov_words += id < 0 ? 1 : 0;
      state = step.next_state;
    }
    result.log_prob += model.Step(state, end).log_prob;
  }
  return result;
}

}  // namespace antiphon::decode
