#include "g2p/unit_ngram.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "math/half.h"

namespace antiphon::g2p {
namespace {

void PutNumber(uint32_t value, std::vector<uint8_t>& bytes) {
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<uint8_t>(value | 0x80));
  bytes.push_back(static_cast<uint8_t>(value));
}

class NumberReader {
 public:
  explicit NumberReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  uint32_t Get() {
    uint32_t value = 0;
    for (int shift = 0; shift < 32; shift += 7) {
      if (at_ == bytes_.size()) throw InputError("its n-grams end early");
      const auto byte = static_cast<uint32_t>(bytes_[at_++]);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw InputError("a number of its n-grams is too large");
  }
  bool AtEnd() const { return at_ == bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

void AddHalves(const char* name, const std::vector<uint16_t>& values, SafetensorsWriter& writer) {
  writer.Add(name, TensorType::kF16, {static_cast<int64_t>(values.size())}, std::as_bytes(std::span(values)));
}

}  // namespace

UnitNgram::UnitNgram(const decode::NgramModel& model) : order_(model.order()) {
  CHECK(model.words().size() >= 2 && model.words()[kBegin] == "<s>" && model.words()[kEnd] == "</s>");
  const auto& from = model.nodes();
  std::vector<std::vector<std::pair<int32_t, int32_t>>> children(from.size());  // (word, node)
  for (size_t i = 1; i < from.size(); ++i) {
    children[static_cast<size_t>(from[i].parent)].emplace_back(from[i].word, static_cast<int32_t>(i));
  }
  std::vector<int32_t> order = {0};  // new node → old one
  nodes_.resize(1);
  levels_ = {0, 1};
  for (size_t i = 0; i < order.size(); ++i) {
    if (static_cast<int32_t>(i) == levels_.back()) levels_.push_back(static_cast<int32_t>(order.size()));
    nodes_[i].first_child = static_cast<int32_t>(order.size());
    auto& mine = children[static_cast<size_t>(order[i])];
    std::sort(mine.begin(), mine.end());
    for (const auto& [word, old] : mine) {
      order.push_back(old);
      const auto& node = from[static_cast<size_t>(old)];
      const auto round = [](float value) { return FromHalf(ToHalf(value)); };
      const bool goes_on = !children[static_cast<size_t>(old)].empty();
      nodes_.push_back({word, 0, kRoot, round(node.log_prob), goes_on ? round(node.log_backoff) : 0.0F});
    }
  }
  levels_.resize(static_cast<size_t>(order_) + 2, static_cast<int32_t>(order.size()));
  nodes_.push_back({-1, static_cast<int32_t>(order.size()), kRoot, 0.0F, 0.0F});
  Link();
}

void UnitNgram::Link() {
  // By level, so that shorter histories are ready.
  for (int32_t parent = 0; parent < static_cast<int32_t>(num_ngrams()) + 1; ++parent) {
    for (int32_t child = nodes_[static_cast<size_t>(parent)].first_child; child < end_of_children(parent); ++child) {
      Node& node = nodes_[static_cast<size_t>(child)];
      int32_t backoff = kRoot;
      for (int32_t shorter = parent; shorter != kRoot;) {
        shorter = nodes_[static_cast<size_t>(shorter)].backoff;
        const int32_t found = FindChild(shorter, node.word);
        if (found < 0) continue;
        backoff = HasChildren(found) ? found : nodes_[static_cast<size_t>(found)].backoff;
        break;
      }
      node.backoff = backoff;
    }
  }
  const int32_t begin = FindChild(kRoot, kBegin);
  start_ = begin >= 0 && HasChildren(begin) ? begin : kRoot;
}

int32_t UnitNgram::FindChild(int32_t node, int32_t word) const {
  const auto begin = nodes_.begin() + nodes_[static_cast<size_t>(node)].first_child;
  const auto end = nodes_.begin() + end_of_children(node);
  if (node == kRoot && word < end - begin && begin[word].word == word) {
    return static_cast<int32_t>(begin - nodes_.begin()) + word;
  }
  const auto it = std::lower_bound(begin, end, word, [](const Node& n, int32_t w) { return n.word < w; });
  return it != end && it->word == word ? static_cast<int32_t>(it - nodes_.begin()) : -1;
}

UnitNgram::Step UnitNgram::NextWord(int32_t state, int32_t word) const {
  float log_prob = 0.0F;
  while (true) {
    if (const int32_t child = FindChild(state, word); child >= 0) {
      const Node& node = nodes_[static_cast<size_t>(child)];
      return {log_prob + node.log_prob, HasChildren(child) ? child : node.backoff};
    }
    if (state == kRoot) return {decode::NgramModel::kImpossible, kRoot};
    log_prob += nodes_[static_cast<size_t>(state)].log_backoff;
    state = nodes_[static_cast<size_t>(state)].backoff;
  }
}

void UnitNgram::AddTo(SafetensorsWriter& writer) const {
  std::vector<uint8_t> trie;
  std::vector<uint16_t> log_probs, log_backoffs;
  for (int32_t node = 0; node < levels_[static_cast<size_t>(order_)]; ++node) {
    const int32_t first = nodes_[static_cast<size_t>(node)].first_child;
    PutNumber(static_cast<uint32_t>(end_of_children(node) - first), trie);
    int32_t last = -1;
    for (int32_t child = first; child < end_of_children(node); ++child) {
      const int32_t word = nodes_[static_cast<size_t>(child)].word;
      PutNumber(static_cast<uint32_t>(word - last), trie);
      last = word;
    }
  }
  for (int32_t node = 1; node <= num_ngrams(); ++node) {
    log_probs.push_back(ToHalf(nodes_[static_cast<size_t>(node)].log_prob));
    if (HasChildren(node)) log_backoffs.push_back(ToHalf(nodes_[static_cast<size_t>(node)].log_backoff));
  }
  writer.Add("ngram.trie", std::span<const uint8_t>(trie));
  AddHalves("ngram.log_probs", log_probs, writer);
  AddHalves("ngram.log_backoffs", log_backoffs, writer);
}

UnitNgram UnitNgram::Read(const SafetensorsReader& reader, int32_t num_units, int order) {
  UnitNgram ngram;
  ngram.order_ = order;
  const TensorView& trie = reader.Tensor("ngram.trie");
  const std::vector<float> log_probs = reader.ReadFloats("ngram.log_probs");
  const std::vector<float> log_backoffs = reader.ReadFloats("ngram.log_backoffs");
  // Each n-gram has a byte at least, so a lie about their number ends before memory does.
  NumberReader numbers(trie.data);
  ngram.nodes_.resize(1);
  ngram.levels_ = {0, 1};
  for (int level = 0; level < order; ++level) {
    for (int32_t node = ngram.levels_[static_cast<size_t>(level)]; node < ngram.levels_.back(); ++node) {
      ngram.nodes_[static_cast<size_t>(node)].first_child = static_cast<int32_t>(ngram.nodes_.size());
      int64_t word = -1;
      for (uint32_t left = numbers.Get(); left > 0; --left) {
        const uint32_t step = numbers.Get();
        word += step;
        if (step == 0 || word >= num_units + kFirstUnit) throw InputError("an n-gram has a unit that is not there");
        if (ngram.nodes_.size() > log_probs.size()) throw InputError("there are more n-grams than probabilities");
        ngram.nodes_.push_back({static_cast<int32_t>(word), 0, kRoot, log_probs[ngram.nodes_.size() - 1], 0.0F});
      }
    }
    ngram.levels_.push_back(static_cast<int32_t>(ngram.nodes_.size()));
  }
  if (!numbers.AtEnd() || ngram.nodes_.size() != log_probs.size() + 1) {
    throw InputError("there are more probabilities than n-grams");
  }
  const auto end = static_cast<int32_t>(ngram.nodes_.size());
  for (int32_t node = ngram.levels_[static_cast<size_t>(order)]; node < end; ++node) {
    ngram.nodes_[static_cast<size_t>(node)].first_child = end;
  }
  ngram.nodes_.push_back({-1, end, kRoot, 0.0F, 0.0F});
  size_t at = 0;
  for (int32_t node = 1; node < end; ++node) {
    Node& n = ngram.nodes_[static_cast<size_t>(node)];
    const bool goes_on = ngram.HasChildren(node);
    if (goes_on && at < log_backoffs.size()) n.log_backoff = log_backoffs[at];
    at += goes_on ? 1 : 0;
    if (!(n.log_prob <= 1e-3F && n.log_prob >= -1e4F) || !(std::fabs(n.log_backoff) <= 1e4F)) {
      throw InputError("a probability is no probability");
    }
  }
  if (at != log_backoffs.size()) throw InputError("the back-off weights are not as many as the histories");
  ngram.Link();
  return ngram;
}

}  // namespace antiphon::g2p
