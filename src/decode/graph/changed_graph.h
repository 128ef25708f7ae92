// A graph on the fly with more words or another language model than its folder has, in memory: the folder stays as it
// is.
//
// With more words, HCL is built anew (about a second for 20,000 words), so that what others cost stays as it was. An
// added word is said where the language model backs off to the end, and all words may follow it from there.
//
// Threads: pure functions. Errors: InputError for pronunciations and grammars that cannot be.
#pragma once

#include <memory>
#include <optional>

#include "decode/graph/graph.h"
#include "decode/graph/word_automaton.h"
#include "hmm/graph/pronunciation_model.h"
#include "hmm/hmm_model.h"
#include "hmm/lexicon.h"

namespace antiphon::decode {

/// Whether words can be added: there is a place where the model says any word. False for grammars of several states
/// that never back off.
bool TakesWords(const WordAutomaton& words);

/// The median of what words cost where the language model has forgotten all before: half of its words are rarer. Needs
/// TakesWords.
float OrdinaryWordCost(const WordAutomaton& words);

/// What each of `count` > 0 words costs there that a person adds because they are going to be said: all together are as
/// probable as the words that texts have beyond a vocabulary, which are some four in a hundred, and one as probable as
/// a frequent word at most, an ordinary word at least. Needs TakesWords.
float NewWordCost(const WordAutomaton& words, size_t count);

/// The graph, which is in parts and has a lexicon, with these. `lexicon`: the graph's own, or one that has further
/// entries, whose words' ids begin with those of the graph's. `pronunciations`: what the graph was built with.
/// `language_model` says where the grammar came from.
Graph WithLexiconAndWords(const Graph& graph, const hmm::HmmModel& model, std::shared_ptr<const hmm::Lexicon> lexicon,
                          const std::optional<hmm::PronunciationModel>& pronunciations, WordAutomaton words,
                          const std::string& language_model);

}  // namespace antiphon::decode
