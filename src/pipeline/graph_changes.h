// The graph that a recogniser searches: what its folder has, with words and a language model that are given at run
// time.
//
// Added words come from a file with a line for each: WORD [WEIGHT] [PHONE …]. Several lines with phones are several
// pronunciations; without phones a word has those of the lexicon, or what a grapheme-to-phoneme model says. Where the
// language model has forgotten all before, the added words share what a vocabulary lacks of a text
// (decode::NewWordCost), times their weights (a number with a decimal point). The model's own probability of unknown
// words is no measure: many models have none. What other words cost does not change; the probabilities sum to a little
// more than 1.
//
// A word that the lexicon has and only the language model lacks needs no phones. Words of hotwords that the graph lacks
// are added in the same way where they can be; without their bonus they cost as much as the language model's median
// word.
//
// Only a graph on the fly can be changed. Units: nats. Threads: plain functions.
// Errors: InputError naming file and line: an unknown phone, a repeated line, a word that nothing pronounces; naming
// the graph that is whole. A word that is there already is a warning.
#pragma once

#include <string>
#include <vector>

#include "base/options.h"
#include "decode/graph/graph.h"
#include "decode/search/word_bias.h"
#include "hmm/hmm_model.h"
#include "pipeline/language_source.h"

namespace antiphon::pipeline {

/// A word that a program adds.
struct WordToAdd {
  std::string word;
  std::string phones;  // blanks between them; empty: as the lexicon or the grapheme-to-phoneme model says
  double weight = 1.0;
};

struct GraphChanges {
  std::string add_words, g2p, lm, grammar, word_loop;
  double added_weight = 1.0;

  template <class V>
  void Visit(V& v) {
    v("add-words", add_words,
      "file of words that the graph lacks, WORD [WEIGHT] [PHONE …] a line; needs a graph made with --on-the-fly");
    v("added-weight", added_weight, Range{1e-6, 1e6},
      "factor on the probability of added words, which together are 4 % of what is said, and 0.2 % each at most");
    v("g2p", g2p,
      "what antiphon g2p train made, for added words and hotwords without pronunciation; empty: the bundle's");
    v("lm", lm, "n-gram model (ARPA) in place of the graph's language model; needs a graph made with --on-the-fly");
    v("grammar", grammar, "grammar (OpenFst text acceptor over words) in its place");
    v("word-loop", word_loop, "list of words in its place: any sequence of them, all equally likely");
  }
  LanguageSource source() const { return {lm, word_loop, grammar}; }
  /// Not counting g2p, which says how and not what.
  bool any() const { return !add_words.empty() || !words.empty() || source().count() > 0; }

  // Not an option: what programs give beside the file.
  std::vector<WordToAdd> words = {};
};

/// The graph in `folder`, changed. Says in the log what was added, and how it is said.
decode::Graph LoadGraph(const std::string& folder, const hmm::HmmModel& model, const GraphChanges& changes,
                        const decode::WordBiasOptions& bias);

}  // namespace antiphon::pipeline
