#include "pipeline/graph_changes.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "decode/graph/changed_graph.h"
#include "decode/graph/graph_parts.h"
#include "decode/graph/parts_builder.h"
#include "hmm/graph/openfst.h"
#include "pipeline/words_to_add.h"

namespace antiphon::pipeline {
namespace {

constexpr int64_t kMaxStates = 100000000;

decode::WordAutomaton LanguageModel(const LanguageSource& source, const decode::Graph& graph,
                                    const hmm::Lexicon& lexicon) {
  if (source.count() == 0) return graph.parts()->words();
  fst::StdVectorFst grammar;
  ReadGrammar(source, lexicon, &grammar);
  auto words = decode::WordAutomaton::FromFst(grammar, lexicon.backoff_word(), kMaxStates);
  const double unknown_words = graph.info().unknown_words;
  if (unknown_words > 0 && decode::TakesWords(words)) {
    words.AddWords({{lexicon.unknown_word(), static_cast<float>(-std::log(unknown_words))}});
  }
  return words;
}

// Their ids, without those that are said already, which are told, and hotwords that cannot be said.
std::vector<std::pair<const WordsToAdd::Word*, int32_t>> UnsaidWords(const WordsToAdd& added,
                                                                     const hmm::Lexicon& lexicon,
                                                                     const std::string& folder,
                                                                     const decode::WordAutomaton& words) {
  const std::vector<bool> said = words.SaidWords(lexicon.num_words());
  std::vector<std::pair<const WordsToAdd::Word*, int32_t>> unsaid;
  for (const WordsToAdd::Word& word : added.words()) {
    const int32_t id = lexicon.FindWord(word.word);
    if (id == 0) continue;  // of a hotword that nothing pronounces
    if (said[static_cast<size_t>(id)]) {
      if (!word.is_hotword && !word.has_new_sounds) {
        log::Warn("{}: '{}' is a word of the recogniser already", word.where, word.word);
      }
      continue;
    }
    if (!decode::TakesWords(words)) {
      if (word.is_hotword) continue;  // told by decode::MakeBias: the grammar never says it
      Throw<InputError>("{}: '{}' has no place in the grammar of '{}': write it into the grammar", word.where,
                        word.word, folder);
    }
    if (word.is_hotword && !word.has_new_sounds) log::Info("{}: '{}' is added", word.where, word.word);
    unsaid.emplace_back(&word, id);
  }
  return unsaid;
}

// What makes a hotword likely is its bonus, so that it costs what an ordinary word does.
void AddToModel(const WordsToAdd& added, const hmm::Lexicon& lexicon, const std::string& folder, double all_weight,
                decode::WordAutomaton& words) {
  const auto unsaid = UnsaidWords(added, lexicon, folder, words);
  if (unsaid.empty()) return;
  const auto num_hotwords =
      std::count_if(unsaid.begin(), unsaid.end(), [](const auto& word) { return word.first->is_hotword; });
  const size_t num_others = unsaid.size() - static_cast<size_t>(num_hotwords);
  const float of_hotword = decode::OrdinaryWordCost(words);
  const float of_other = num_others > 0 ? decode::NewWordCost(words, num_others) : of_hotword;
  std::vector<decode::WordAutomaton::AddedWord> new_words;
  for (const auto& [word, id] : unsaid) {
    new_words.emplace_back(
        id, (word->is_hotword ? of_hotword : of_other) - static_cast<float>(std::log(word->weight * all_weight)));
  }
  words.AddWords(new_words);
  log::Debug("{} words added to the language model", new_words.size());
}

}  // namespace

decode::Graph LoadGraph(const std::string& folder, const hmm::HmmModel& model, const GraphChanges& changes,
                        const decode::WordBiasOptions& bias) {
  const LanguageSource source = changes.source();
  if (source.count() > 1) throw UsageError("give one of --lm, --grammar and --word-loop: what may be said");
  decode::Graph graph = decode::Graph::Load(folder, model);
  if (graph.parts() == nullptr) {
    if (!changes.any()) return graph;
    Throw<InputError>(
        "'{}' is a static graph, to which no words can be added and whose language model cannot be exchanged: build it "
        "with antiphon graph --on-the-fly, or run recipes/chain.toml with --set on_the_fly=true",
        folder);
  }
  const WordsToAdd added(graph, changes, decode::PhrasesOf(bias));
  if (added.words().empty() && source.count() == 0) return graph;
  const auto& lexicon = added.lexicon();
  decode::WordAutomaton words = LanguageModel(source, graph, *lexicon);
  AddToModel(added, *lexicon, folder, changes.added_weight, words);
  return decode::WithLexiconAndWords(graph, model, lexicon, decode::LoadPronunciationModel(folder), std::move(words),
                                     source.count() == 0 ? graph.info().language_model : Describe(source));
}

}  // namespace antiphon::pipeline
