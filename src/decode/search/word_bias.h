// Words that a caller prefers, or allows alone, while a search is under way: hotwords and a list of words, given at run
// time, without building the graph anew.
//
// A hotword is a phrase of one or more words. Each of its words lowers the cost of a hypothesis by the bonus as soon as
// it is said, so that the beam keeps it; what turns out not to become the whole phrase is taken back, but for what
// shorter phrases within it earn. Of phrases within one another the longest counts, of those that overlap each. A bonus
// leaves a word 2 nats of what it usually costs in the graph (UsualCosts), or half of it, as a word that pays for being
// said is said without end. With a list of words, all others are impossible; entries of several words are phrases that
// are said whole, and [unk] allows other words between them (phrase_list.h).
//
//   const WordBias bias(graph, {.hotwords = "names.txt"});
//   for (const std::string& remark : bias.remarks()) …     // what cannot be done as asked for, and why
//   Decoder decoder(graph, options, &bias);
//
// Files: a phrase per line, after a tab its own bonus; a word or phrase per line. Blank lines and those that begin with
// # are left out. Words may be in small letters where the graph's are in capitals, and the other way round. Hotwords
// that name no file are phrases with commas between; what has a '/' or ends in .txt, and no comma, must be a file.
// Contexts are how far into which phrase a hypothesis is; 0: in none. Units: nats.
// Threads: const methods may run together. Errors: InputError naming file and line; phrases with words that the graph
// cannot give are no error but a remark.
// Source: Aho, Corasick, CACM 1975; Hall et al., Composition-based on-the-fly rescoring for salient n-gram biasing,
// Interspeech 2015.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/options.h"
#include "decode/graph/graph.h"
#include "decode/search/phrase_list.h"

namespace antiphon::decode {

inline constexpr const char* kHotwordsHelp =
    "words and phrases to prefer, with commas between; or a file of them, one per line, each with a bonus of its own "
    "behind a tab if you like";
inline constexpr const char* kHotwordBonusHelp = "nats by which each word of a hotword gets cheaper";

struct WordBiasOptions {
  std::string hotwords;
  double hotword_bonus = 4.0;
  std::string word_list;
  // What programs give beside the files, or in place of them: phrases with their bonuses, words.
  std::vector<std::pair<std::string, double>> phrases = {};
  std::vector<std::string> words = {};
  template <class V>
  void Visit(V& v) {
    v("hotwords", hotwords, kHotwordsHelp);
    v("hotword-bonus", hotword_bonus, Range{-100.0, 100.0}, kHotwordBonusHelp);
    v("word-list", word_list, "file of the only words, or phrases of several, that may be recognised, one per line");
  }
  bool empty() const { return hotwords.empty() && word_list.empty() && phrases.empty() && words.empty(); }
};

/// Hotwords of file and program, each with its bonus.
std::vector<std::pair<std::string, double>> PhrasesOf(const WordBiasOptions& options);

class WordBias {
 public:
  WordBias(const Graph& graph, const WordBiasOptions& options);
  /// Hotwords (text, bonus) in place of a file.
  WordBias(const Graph& graph, std::span<const std::pair<std::string, double>> phrases);

  /// What could not be done, for the person: "the phrase 'x y' cannot be preferred: …".
  const std::vector<std::string>& remarks() const { return remarks_; }

  /// Of all words; 0 without hotwords.
  double LargestBonus() const;

  using Step = PhraseList::Step;
  Step Next(int32_t context, int32_t word) const;
  /// Of ending here: what an unfinished hotword has to give back; infinite within a phrase of the list.
  float FinalCost(int32_t context) const;
  /// Null: single words are allowed, or all.
  const PhraseList* phrases() const { return phrases_ ? &*phrases_ : nullptr; }

 private:
  struct Node {
    std::map<int32_t, int32_t> next;  // by word
    int32_t fail = 0;
    float bonus = 0;  // of the edge to here
    float score = 0;  // of all edges to here
    float kept = 0;   // of that, what whole phrases in these words earn
    float gain = 0;   // what the longest phrase that ends here adds to what is kept of its words before the last
    bool ends = false;
    float give_back() const { return score - kept; }  // unless the phrase goes on
  };

  void FindWords(const Graph& graph);
  void AddPhrase(const Graph& graph, const std::string& phrase, double bonus);
  std::vector<int32_t> IdsOf(const Graph& graph, const std::string& phrase, std::string& why_not) const;
  void Allow(const Graph& graph, const WordBiasOptions& options);
  void AllowAlone(const Graph& graph, std::span<const std::vector<int32_t>> phrases, bool others);
  Step NextHotword(int32_t node, int32_t word) const;
  void LimitBonuses(const Graph& graph);
  void Link();
  std::string WhyNot(const Graph& graph, const std::string& word) const;

  std::map<std::string, int32_t, std::less<>> ids_;
  std::vector<bool> on_arcs_;  // by word: the graph can give it
  std::vector<bool> allowed_;  // by word; empty: all
  // Then a context is one of its contexts times the nodes, plus a node.
  std::optional<PhraseList> phrases_;
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::vector<std::string> remarks_;
};

}  // namespace antiphon::decode
