#include "decode/graph/lexicon_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.h"

namespace antiphon::decode {
namespace {

using Labels = LexiconGraph::Labels;

constexpr const char* kIsNone = "the graph of the words' sounds is none";

// Calls visit(from, arc) for every arc.
template <class Visit>
void ForEachArc(std::span<const GraphState> states, std::span<const GraphArc> arcs, const Visit& visit) {
  for (size_t s = 0; s < states.size(); ++s) {
    for (uint32_t a = states[s].epsilon_begin; a < states[s].end; ++a) visit(static_cast<int32_t>(s), arcs[a]);
  }
}

// From where a word's end, or the end, can be reached before a label.
std::vector<bool> FreeStates(std::span<const GraphState> states, std::span<const GraphArc> arcs,
                             int32_t backoff_label) {
  std::vector<bool> is_free(states.size(), false);
  std::vector<int32_t> open;
  const auto take = [&](int32_t state) {
    if (is_free[static_cast<size_t>(state)]) return;
    is_free[static_cast<size_t>(state)] = true;
    open.push_back(state);
  };
  std::vector<uint32_t> first(states.size() + 2, 0);
  ForEachArc(states, arcs, [&](int32_t, const GraphArc& arc) {
    if (arc.word == 0) ++first[static_cast<size_t>(arc.next_state) + 2];
  });
  for (size_t s = 2; s < first.size(); ++s) first[s] += first[s - 1];
  std::vector<int32_t> before(first.back());
  ForEachArc(states, arcs, [&](int32_t from, const GraphArc& arc) {
    if (arc.word == 0) before[first[static_cast<size_t>(arc.next_state) + 1]++] = from;
  });
  ForEachArc(states, arcs, [&](int32_t from, const GraphArc& arc) {
    if (arc.word == backoff_label) take(from);
  });
  for (size_t s = 0; s < states.size(); ++s) {
    if (std::isfinite(states[s].final_cost)) take(static_cast<int32_t>(s));
  }
  while (!open.empty()) {
    const auto state = static_cast<size_t>(open.back());
    open.pop_back();
    for (uint32_t i = first[state]; i < first[state + 1]; ++i) take(before[i]);
  }
  return is_free;
}

// Depth first through the states that are not free; `label` for each label on the way, `done` for each state when all
// behind it are done.
template <class Label, class Done>
class WordWalk {
 public:
  WordWalk(std::span<const GraphState> states, std::span<const GraphArc> arcs, const std::vector<bool>& is_free,
           Label label, Done done)
      : states_(states), arcs_(arcs), is_free_(is_free), label_(std::move(label)), done_(std::move(done)) {
    seen_.assign(states.size(), false);
  }

  void From(int32_t start) {
    if (seen_[static_cast<size_t>(start)]) return;
    Enter(start);
    while (!stack_.empty()) {
      auto& [state, at] = stack_.back();
      const int32_t now = state;
      if (at == states_[static_cast<size_t>(now)].end) {
        stack_.pop_back();
        done_(now);
        continue;
      }
      const GraphArc& arc = arcs_[at++];
      if (arc.word != 0) {
        label_(arc.word);
      } else if (const auto next = static_cast<size_t>(arc.next_state); !is_free_[next] && !seen_[next]) {
        Enter(arc.next_state);
      }
    }
  }

 private:
  void Enter(int32_t state) {
    seen_[static_cast<size_t>(state)] = true;
    stack_.emplace_back(state, states_[static_cast<size_t>(state)].epsilon_begin);
  }
  std::span<const GraphState> states_;
  std::span<const GraphArc> arcs_;
  const std::vector<bool>& is_free_;
  Label label_;
  Done done_;
  std::vector<bool> seen_;
  std::vector<std::pair<int32_t, uint32_t>> stack_;
};

// `labels` ascending and without gaps that could be closed.
void Tidy(std::vector<Labels>& labels) {
  std::sort(labels.begin(), labels.end(), [](const Labels& a, const Labels& b) { return a.first < b.first; });
  size_t count = 0;
  for (const Labels& next : labels) {
    if (count > 0 && next.first <= labels[count - 1].last + 1) {
      labels[count - 1].last = std::max(labels[count - 1].last, next.last);
    } else {
      labels[count++] = next;
    }
  }
  labels.resize(count);
}

bool Same(const std::vector<Labels>& a, const std::vector<Labels>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Labels& x, const Labels& y) { return x.first == y.first && x.last == y.last; });
}

}  // namespace

std::vector<int32_t> NumberLabels(std::span<const GraphState> states, std::span<const GraphArc> arcs, int32_t start,
                                  int32_t backoff_label) {
  const std::vector<bool> is_free = FreeStates(states, arcs, backoff_label);
  std::vector<int32_t> number(static_cast<size_t>(backoff_label) + 1, 0);
  number.back() = backoff_label;
  int32_t count = 0;
  const auto give = [&](int32_t label) {
    if (label != backoff_label && number[static_cast<size_t>(label)] == 0) number[static_cast<size_t>(label)] = ++count;
  };
  WordWalk walk(states, arcs, is_free, give, [](int32_t) {});
  // Words begin at free states; if the start is none, there too.
  const auto begin = [&](int32_t state) {
    const GraphState& from = states[static_cast<size_t>(state)];
    for (uint32_t a = from.epsilon_begin; a < from.end; ++a) {
      if (arcs[a].word != 0) {
        give(arcs[a].word);
      } else if (!is_free[static_cast<size_t>(arcs[a].next_state)]) {
        walk.From(arcs[a].next_state);
      }
    }
  };
  begin(start);
  for (size_t s = 0; s < states.size(); ++s) begin(static_cast<int32_t>(s));
  for (int32_t label = 1; label < backoff_label; ++label) give(label);
  return number;
}

LexiconGraph::LexiconGraph(std::vector<GraphState> states, std::span<const GraphArc> arcs,
                           std::shared_ptr<const void> owner, int32_t start,
                           std::vector<hmm::PronunciationLabel> labels, int32_t num_transition_ids, int32_t num_words)
    : states_(std::move(states)), arcs_(arcs), owner_(std::move(owner)), start_(start), labels_(std::move(labels)) {
  Check(num_transition_ids, num_words);
  IndexWords(num_words);
  LookAhead();
}

void LexiconGraph::Check(int32_t num_transition_ids, int32_t num_words) const {
  const auto fail = [](const char* what) { Throw<InputError>("{}: {}", kIsNone, what); };
  if (labels_.empty() || labels_.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max() / 2)) {
    fail("it has no pronunciations");
  }
  for (size_t label = 1; label < labels_.size(); ++label) {
    if (labels_[label].word < 1 || labels_[label].word > num_words) fail("a word is not in words.txt");
    if (!std::isfinite(labels_[label].cost)) fail("a cost is not a finite number");
  }
  CheckArcs(states_, arcs_, start_,
            {.num_labels = backoff_label() + int64_t{1},
             .num_transitions = num_transition_ids + int64_t{1},
             .loop = backoff_label(),
             .is_none = kIsNone,
             .no_label = "a label is no pronunciation's"});
}

void LexiconGraph::IndexWords(int32_t num_words) {
  first_label_.assign(static_cast<size_t>(num_words) + 2, 0);
  for (size_t label = 1; label < labels_.size(); ++label) ++first_label_[static_cast<size_t>(labels_[label].word) + 1];
  for (size_t w = 1; w < first_label_.size(); ++w) first_label_[w] += first_label_[w - 1];
  labels_of_words_.resize(labels_.size() - 1);
  std::vector<uint32_t> at = first_label_;
  for (size_t label = 1; label < labels_.size(); ++label) {
    labels_of_words_[at[static_cast<size_t>(labels_[label].word)]++] = static_cast<int32_t>(label);
  }
}

void LexiconGraph::LookAhead() {
  const std::vector<bool> is_free = FreeStates(states_, arcs_, backoff_label());
  std::vector<int32_t> order;
  WordWalk walk(
      states_, arcs_, is_free, [](int32_t) {}, [&](int32_t state) { order.push_back(state); });
  for (size_t s = 0; s < states_.size(); ++s) {
    if (!is_free[s]) walk.From(static_cast<int32_t>(s));
  }
  std::vector<std::vector<Labels>> ahead(states_.size());
  // Once, but where states lead back to themselves.
  for (bool changed = true; changed;) {
    changed = false;
    for (const int32_t state : order) {
      const GraphState& from = states_[static_cast<size_t>(state)];
      std::vector<Labels> now;
      for (uint32_t a = from.epsilon_begin; a < from.end; ++a) {
        const GraphArc& arc = arcs_[a];
        if (arc.word != 0) {
          now.push_back({arc.word, arc.word});
        } else if (const auto& next = ahead[static_cast<size_t>(arc.next_state)]; arc.next_state != state) {
          now.insert(now.end(), next.begin(), next.end());
        }
      }
      Tidy(now);
      std::vector<Labels>& before = ahead[static_cast<size_t>(state)];
      if (Same(now, before)) continue;
      before = std::move(now);
      changed = true;
    }
  }
  std::unordered_map<std::string_view, int32_t> sets = {{{}, 0}};
  first_ahead_ = {0, 0};
  for (const std::vector<Labels>& labels : ahead) {
    const std::string_view bytes(reinterpret_cast<const char*>(labels.data()), labels.size() * sizeof(Labels));
    const auto [set, is_new] = sets.try_emplace(bytes, num_ahead_sets());
    ahead_sets_.push_back(set->second);
    if (!is_new) continue;
    ahead_.insert(ahead_.end(), labels.begin(), labels.end());
    first_ahead_.push_back(static_cast<uint32_t>(ahead_.size()));
  }
}

}  // namespace antiphon::decode
