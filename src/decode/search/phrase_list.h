// Whole phrases that alone may be said, one after the other, and what a search knows of how far into them it is.
//
//   const PhraseList list({{yes}, {call, the, office}}, /*others=*/false);
//   PhraseList::Step step = list.Next(0, call);            // and so on, word by word
//   list.InPhrases(words, /*ended=*/true);                 // which of the words are phrases
//
// Phrases may begin alike and contain one another: a context is the set of all places in phrases where a hypothesis may
// be, made once for each such set. With `others`, other words may be said between phrases, each at a cost; a phrase
// that was begun and not ended is such words. Without, what is no beginning of a series of phrases is impossible.
//
// Words are ids of a graph, from 1. Contexts count from 0, where a phrase may begin. Units: nats.
// Threads: const methods may run together.
// Errors: InputError for phrases that overlap in so many ways that the contexts are more than kMostPlaces places to
// look at, some tenths of a second of work.
// Source: subsets of an automaton's states, with costs, as in Mohri, Finite-state transducers in language and speech
// processing, Computational Linguistics 1997.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string_view>
#include <vector>

namespace antiphon::decode {

/// In a list of words and phrases: others may be said, too; and what stands for them in results.
inline constexpr std::string_view kOtherWords = "[unk]";

class PhraseList {
 public:
  static constexpr int64_t kMostPlaces = 1 << 19;
  /// Of each word outside of phrases; measured in docs/results/serving.md.
  static constexpr float kOtherWordCost = 1.0F;

  /// Phrases of one word or more.
  PhraseList(std::span<const std::vector<int32_t>> phrases, bool others);

  struct Step {
    int32_t context;
    float cost;  // infinite: the word is not allowed
  };
  Step Next(int32_t context, int32_t word) const;
  /// Of ending here; infinite within a phrase.
  float FinalCost(int32_t context) const { return contexts_[static_cast<size_t>(context)].boundary; }
  int num_contexts() const { return static_cast<int>(contexts_.size()); }
  bool others() const { return others_; }

  /// For each word whether it belongs to a phrase, so that as many as can be do. `ended`: more words will not come, so
  /// that a phrase which is not whole is none.
  std::vector<bool> InPhrases(std::span<const int32_t> words, bool ended) const;

 private:
  static constexpr float kImpossible = std::numeric_limits<float>::infinity();
  struct Node {
    std::map<int32_t, int32_t> next;  // by word
    bool ends = false;
  };
  struct Context {
    std::map<int32_t, Step> next;  // words that go on with a phrase
    float boundary = kImpossible;  // what it costs that a phrase may begin here
  };
  // Nodes of the tree of phrases, 0 standing for every place where one may begin, with the words outside of phrases
  // that the way to it has more than the cheapest of the set.
  using Set = std::map<int32_t, int>;

  void AddPhrase(std::span<const int32_t> phrase);
  void MakeContexts();
  void Enter(int32_t node, int others, Set& set) const;
  Set After(const Set& set, int32_t word) const;

  bool others_;
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::vector<Context> contexts_;
};

}  // namespace antiphon::decode
