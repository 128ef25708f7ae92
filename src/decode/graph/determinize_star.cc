#include "decode/graph/determinize_star.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/log_add.h"
#include "decode/graph/label_trie.h"
#include "hmm/graph/openfst.h"

namespace antiphon::decode {
namespace {

using StarArc = fst::StdArc;

// A state of the input with the cost and the output labels that are not yet on the output's arcs.
struct Element {
  int32_t state;
  int32_t string;
  double cost;
};

using Subset = std::vector<Element>;  // ascending states

struct KeyPart {
  int32_t state;
  int32_t string;
  int64_t cost;
  bool operator==(const KeyPart&) const = default;
};

struct KeyHash {
  size_t operator()(const std::vector<KeyPart>& key) const {
    uint64_t hash = key.size();
    for (const KeyPart& part : key) {
      for (const uint64_t value : {static_cast<uint64_t>(part.state) << 32 | static_cast<uint32_t>(part.string),
                                   static_cast<uint64_t>(part.cost)}) {
        hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
        hash ^= hash >> 32;
      }
    }
    return hash;
  }
};

class StarDeterminizer {
 public:
  StarDeterminizer(const fst::StdVectorFst& in, int64_t max_states, fst::StdVectorFst* out)
      : in_(in), max_states_(max_states), out_(*out), position_(in.NumStates(), -1) {
    out_.DeleteStates();
  }

  void Run() {
    if (in_.Start() == fst::kNoStateId) return;
    out_.SetStart(StateOf({{in_.Start(), LabelTrie::kEmpty, 0.0}}));
    while (!open_.empty()) {
      const auto [id, subset] = std::move(open_.back());
      open_.pop_back();
      Expand(id, subset);
      if (out_.NumStates() > max_states_) {
        Throw<InputError>(
            "the search graph grows beyond {} states: the grammar is too ambiguous or too large; simplify it",
            max_states_);
      }
    }
  }

 private:
  // The subset with all that input epsilons lead to. What arrives later at a state is sent on by itself.
  void Close(const Subset& subset) {
    closed_.clear();
    pending_.clear();
    for (const Element& e : subset) Reach(e);
    for (size_t i = 0; i < queue_.size(); ++i) {
      const int32_t at = queue_[i];
      const Element moved{closed_[at].state, closed_[at].string, pending_[at]};
      pending_[at] = std::numeric_limits<double>::infinity();
      queued_[at] = false;
      for (fst::ArcIterator<fst::StdVectorFst> it(in_, moved.state); !it.Done(); it.Next()) {
        const StarArc& arc = it.Value();
        if (arc.ilabel != 0) continue;
        const int32_t string = arc.olabel == 0 ? moved.string : strings_.Append(moved.string, arc.olabel);
        Reach({arc.nextstate, string, moved.cost + arc.weight.Value()});
      }
      if (queue_.size() > 100'000'000) throw InputError("the language model has a cycle of epsilon arcs");
    }
    queue_.clear();
    for (const Element& e : closed_) position_[e.state] = -1;
  }

  void Reach(const Element& e) {
    int32_t& at = position_[e.state];
    if (at < 0) {
      at = static_cast<int32_t>(closed_.size());
      closed_.push_back(e);
      pending_.push_back(e.cost);
      queued_.resize(closed_.size());
      queued_[at] = false;
    } else {
      RequireSame(closed_[at].string, e.string);
      closed_[at].cost = LogAddCosts(closed_[at].cost, e.cost);
      pending_[at] = LogAddCosts(pending_[at], e.cost);
    }
    if (!queued_[at]) {
      queued_[at] = true;
      queue_.push_back(at);
    }
  }

  static void RequireSame(int32_t a, int32_t b) {
    if (a == b) return;
    throw InputError(
        "the search graph cannot be determinised: one phone sequence stands for two word sequences that nothing tells "
        "apart; "
        "the grammar is ambiguous (two paths with the same words and different weights, or epsilon loops)");
  }

  void Expand(int32_t id, const Subset& subset) {
    Close(subset);
    SetFinal(id);
    moves_.clear();
    for (const Element& e : closed_) {
      for (fst::ArcIterator<fst::StdVectorFst> it(in_, e.state); !it.Done(); it.Next()) {
        const StarArc& arc = it.Value();
        if (arc.ilabel == 0) continue;
        const int32_t string = arc.olabel == 0 ? e.string : strings_.Append(e.string, arc.olabel);
        moves_.push_back({arc.ilabel, {arc.nextstate, string, e.cost + arc.weight.Value()}});
      }
    }
    std::stable_sort(moves_.begin(), moves_.end(), [](const Move& a, const Move& b) {
      return a.label != b.label ? a.label < b.label : a.element.state < b.element.state;
    });
    for (size_t begin = 0; begin < moves_.size();) {
      size_t end = begin;
      Subset next;
      for (; end < moves_.size() && moves_[end].label == moves_[begin].label; ++end) {
        const Element& e = moves_[end].element;
        if (!next.empty() && next.back().state == e.state) {
          RequireSame(next.back().string, e.string);
          next.back().cost = LogAddCosts(next.back().cost, e.cost);
        } else {
          next.push_back(e);
        }
      }
      AddArc(id, moves_[begin].label, std::move(next));
      begin = end;
    }
  }

  void SetFinal(int32_t id) {
    bool found = false;
    int32_t string = LabelTrie::kEmpty;
    double cost = 0.0;
    for (const Element& e : closed_) {
      const auto weight = in_.Final(e.state);
      if (weight == StarArc::Weight::Zero()) continue;
      if (found) RequireSame(string, e.string);
      cost = found ? LogAddCosts(cost, e.cost + weight.Value()) : e.cost + weight.Value();
      string = e.string;
      found = true;
    }
    if (!found) return;
    const std::vector<int32_t> labels = strings_.Labels(string);
    int32_t state = id;
    for (const int32_t label : labels) {
      const auto next = out_.AddState();
      out_.AddArc(state, StarArc(0, label, 0.0F, next));
      state = next;
    }
    out_.SetFinal(state, static_cast<float>(cost));
  }

  void AddArc(int32_t from, int32_t label, Subset subset) {
    double total = subset[0].cost;
    int32_t common = subset[0].string;
    for (size_t i = 1; i < subset.size(); ++i) {
      total = LogAddCosts(total, subset[i].cost);
      common = strings_.CommonPrefix(common, subset[i].string);
    }
    for (Element& e : subset) {
      e.cost -= total;
      if (common == LabelTrie::kEmpty) continue;
      e.string = strings_.Append(LabelTrie::kEmpty, strings_.Labels(e.string, strings_.Length(common)));
    }
    const std::vector<int32_t> words = strings_.Labels(common);
    const int32_t to = StateOf(std::move(subset));
    for (size_t i = 0; i + 1 < words.size(); ++i) {
      const auto next = out_.AddState();
      out_.AddArc(from, StarArc(i == 0 ? label : 0, words[i], i == 0 ? static_cast<float>(total) : 0.0F, next));
      from = next;
    }
    const bool first = words.size() <= 1;
    out_.AddArc(from, StarArc(first ? label : 0, words.empty() ? 0 : words.back(),
                              first ? static_cast<float>(total) : 0.0F, to));
  }

  int32_t StateOf(Subset subset) {
    // Costs that differ by rounding alone are equal.
    std::vector<KeyPart> key;
    key.reserve(subset.size());
    for (const Element& e : subset) key.push_back({e.state, e.string, std::llround(e.cost * 4096)});
    const auto [it, added] = ids_.emplace(std::move(key), 0);
    if (added) {
      it->second = out_.AddState();
      open_.emplace_back(it->second, std::move(subset));
    }
    return it->second;
  }

  struct Move {
    int32_t label;
    Element element;
  };
  const fst::StdVectorFst& in_;
  int64_t max_states_;
  fst::StdVectorFst& out_;
  LabelTrie strings_;
  std::unordered_map<std::vector<KeyPart>, int32_t, KeyHash> ids_;  // only looked up
  std::vector<std::pair<int32_t, Subset>> open_;
  // Scratch.
  std::vector<int32_t> position_, queue_;
  Subset closed_;
  std::vector<double> pending_;
  std::vector<bool> queued_;
  std::vector<Move> moves_;
};

}  // namespace

void DeterminizeStar(const fst::StdVectorFst& in, int64_t max_states, fst::StdVectorFst* out) {
  StarDeterminizer(in, max_states, out).Run();
}

}  // namespace antiphon::decode
