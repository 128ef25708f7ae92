#include "decode/search/phrase_list.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"

namespace antiphon::decode {

PhraseList::PhraseList(std::span<const std::vector<int32_t>> phrases, bool others) : others_(others) {
  for (const std::vector<int32_t>& phrase : phrases) AddPhrase(phrase);
  MakeContexts();
}

void PhraseList::AddPhrase(std::span<const int32_t> phrase) {
  size_t at = 0;
  for (const int32_t word : phrase) {
    const auto [it, added] = nodes_[at].next.emplace(word, static_cast<int32_t>(nodes_.size()));
    at = static_cast<size_t>(it->second);
    if (added) nodes_.emplace_back();
  }
  if (at != 0) nodes_[at].ends = true;
}

// At the end of a phrase the next one may begin; a node without a way on is nothing but that.
void PhraseList::Enter(int32_t node, int others, Set& set) const {
  const Node& entered = nodes_[static_cast<size_t>(node)];
  const auto add = [&](int32_t place) {
    const auto [it, added] = set.emplace(place, others);
    if (!added) it->second = std::min(it->second, others);
  };
  if (node == 0 || entered.ends) add(0);
  if (node != 0 && !entered.next.empty()) add(node);
}

PhraseList::Set PhraseList::After(const Set& set, int32_t word) const {
  Set after;
  for (const auto& [node, others] : set) {
    const auto& next = nodes_[static_cast<size_t>(node)].next;
    if (const auto found = next.find(word); found != next.end()) Enter(found->second, others, after);
    if (node == 0 && others_) Enter(0, others + 1, after);
  }
  return after;
}

// Only words that go on with a phrase are kept by context: what may begin is the same wherever one may begin.
void PhraseList::MakeContexts() {
  std::map<Set, int32_t> ids = {{Set{{0, 0}}, 0}};
  std::vector<const Set*> sets = {&ids.begin()->first};
  int64_t places = 0;
  for (size_t id = 0; id < sets.size(); ++id) {
    Context context;
    std::set<int32_t> words;
    for (const auto& [node, others] : *sets[id]) {
      if (node == 0) context.boundary = static_cast<float>(others) * kOtherWordCost;
      if (node == 0 && id != 0) continue;
      for (const auto& [word, next] : nodes_[static_cast<size_t>(node)].next) words.insert(word);
    }
    places += std::ssize(words) * std::ssize(*sets[id]);
    if (places > kMostPlaces) {
      throw InputError("the phrases that alone are allowed overlap in too many ways: give fewer, or shorter ones");
    }
    for (const int32_t word : words) {
      Set after = After(*sets[id], word);
      const auto least = std::min_element(after.begin(), after.end(), [](const auto& a, const auto& b) {
                           return a.second < b.second;
                         })->second;
      for (auto& [node, others] : after) others -= least;
      const auto [it, added] = ids.emplace(std::move(after), static_cast<int32_t>(ids.size()));
      if (added) sets.push_back(&it->first);
      context.next.emplace(word, Step{it->second, static_cast<float>(least) * kOtherWordCost});
    }
    contexts_.push_back(std::move(context));
  }
}

PhraseList::Step PhraseList::Next(int32_t context, int32_t word) const {
  const Context& now = contexts_[static_cast<size_t>(context)];
  if (const auto found = now.next.find(word); found != now.next.end()) return found->second;
  if (now.boundary == kImpossible) return {0, kImpossible};
  const auto& begin = contexts_.front().next;
  if (const auto found = begin.find(word); found != begin.end()) {
    return {found->second.context, now.boundary + found->second.cost};
  }
  return {0, others_ ? now.boundary + kOtherWordCost : kImpossible};
}

std::vector<bool> PhraseList::InPhrases(std::span<const int32_t> words, bool ended) const {
  const size_t count = words.size();
  // The fewest words outside of phrases up to each place, and where the phrase that ends there began; itself: none
  // does.
  std::vector<size_t> fewest(count + 1, count + 1), begin(count + 1);
  fewest[0] = 0;
  std::pair<size_t, size_t> unfinished = {count + 1, count};  // and its beginning
  for (size_t from = 0; from <= count; ++from) {
    if (from > 0 && fewest[from - 1] + 1 < fewest[from]) {
      fewest[from] = fewest[from - 1] + 1;
      begin[from] = from;
    }
    const Node* node = &nodes_[0];
    for (size_t at = from; at < count; ++at) {
      const auto found = node->next.find(words[at]);
      if (found == node->next.end()) break;
      node = &nodes_[static_cast<size_t>(found->second)];
      if (node->ends && fewest[from] < fewest[at + 1]) {
        fewest[at + 1] = fewest[from];
        begin[at + 1] = from;
      }
      if (at + 1 == count) unfinished = std::min(unfinished, {fewest[from], from});
    }
  }
  std::vector<bool> within(count, false);
  size_t at = count;
  if (!ended && unfinished.first < fewest[count]) {
    at = unfinished.second;
    std::fill(within.begin() + static_cast<std::ptrdiff_t>(at), within.end(), true);
  }
  while (at > 0) {
    const bool phrase = begin[at] < at;
    std::fill(within.begin() + static_cast<std::ptrdiff_t>(phrase ? begin[at] : at - 1),
              within.begin() + static_cast<std::ptrdiff_t>(at), phrase);
    at = phrase ? begin[at] : at - 1;
  }
  return within;
}

}  // namespace antiphon::decode
