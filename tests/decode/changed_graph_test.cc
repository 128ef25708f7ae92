// Graphs on the fly that get words and language models at run time.
#include "decode/graph/changed_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "decode/graph/graph_parts.h"
#include "decode/graph/parts_builder.h"
#include "decode/lm/ngram_estimate.h"
#include "decode/lm/ngram_fst.h"
#include "decode/toy_model.h"
#include "decode/toy_search.h"
#include "hmm/graph/openfst.h"
#include "temporary_folder.h"

namespace antiphon::decode {
namespace {

constexpr int32_t kNew = 5;
constexpr const char* kWords = "A P0\nB P1\nC P0 P2\nC P2\nD P3\n";

// A graph of four words in a folder, with probabilities of pauses or without.
class ChangedGraph : public ::testing::TestWithParam<bool> {
 protected:
  ChangedGraph() {
    std::optional<hmm::PronunciationModel> pronunciations;
    if (GetParam()) {
      pronunciations.emplace();
      pronunciations->pause_at_start = 0.7;
      for (size_t e = 0; e < lexicon_.entries().size(); ++e) {
        const double x = 0.1 * static_cast<double>(e);
        pronunciations->entries.push_back({1.0 - x, 0.2 + x, 1.3 - x, 0.7 + x});
      }
    }
    const hmm::PronunciationModel* const said = pronunciations ? &*pronunciations : nullptr;
    const GraphParts parts(BuildLexiconGraph(model_, lexicon_, {}, said),
                           Model({{"A", "B"}, {"B", "A", "C"}, {"A"}, {"D", "C"}}, lexicon_));
    SaveParts(parts, model_, lexicon_, said, "test", {}, folder_.path());
    graph_ = Graph::Load(folder_.path(), model_);
  }

  static hmm::Lexicon WordsOf(const std::string& text) {
    hmm::LexiconOptions options;
    options.silence_phones = {"SIL"};
    return hmm::Lexicon::Parse(text, "lexicon.txt", options);
  }
  static WordAutomaton Model(const std::vector<std::vector<std::string>>& sentences, const hmm::Lexicon& lexicon) {
    fst::StdVectorFst grammar;
    NgramToFst(
        EstimateNgram(sentences, {}, {2, "witten-bell", 1}),
        [&](std::string_view w) { return lexicon.FindWord(w) > 0 ? lexicon.FindWord(w) : -1; }, lexicon.backoff_word(),
        &grammar);
    return WordAutomaton::FromFst(grammar, lexicon.backoff_word(), 1000);
  }
  Graph With(const std::string& lines, WordAutomaton words) const {
    auto larger = lines.empty() ? graph_.lexicon() : std::make_shared<const hmm::Lexicon>(WordsOf(kWords + lines));
    return WithLexiconAndWords(graph_, model_, larger, LoadPronunciationModel(folder_.path()), std::move(words), "new");
  }
  std::map<Words, double> PathsOf(const Graph& graph) const {
    DecoderOptions options = Wide();
    const Decoded decoded = Decode(graph, RandomToyScores(7, 5, graph_.num_pdfs()), options);
    EXPECT_TRUE(decoded.reached_final);
    return AllPaths(Determinize(decoded.raw, {kScale, 1e6, 10000000}));
  }

  testing::TemporaryFolder folder_;
  hmm::Lexicon lexicon_ = WordsOf(kWords);
  hmm::HmmModel model_ = ToyModel(lexicon_, 2);
  Graph graph_;
};
INSTANTIATE_TEST_SUITE_P(Pauses, ChangedGraph, ::testing::Bool());

// The new word begins as others do, sounds like one of them, or says nothing new.
TEST_P(ChangedGraph, AnAddedWordChangesNoCostOfOthers) {
  const std::map<Words, double> before = PathsOf(graph_);
  for (const char* line : {"NEW P0 P1\n", "NEW P0 P2\n", "NEW P3 P1 P3\nNEW P1\n"}) {
    SCOPED_TRACE(line);
    WordAutomaton words = graph_.parts()->words();
    words.AddWords({{kNew, OrdinaryWordCost(words)}});
    const Graph more = With(line, std::move(words));
    EXPECT_EQ(more.words().back(), "NEW");
    EXPECT_TRUE(more.SaidWords()[kNew]);
    EXPECT_EQ(more.info().language_model, "new");
    std::map<Words, double> others = PathsOf(more);
    const size_t all = others.size();
    std::erase_if(others, [](const auto& path) { return std::ranges::count(path.first, kNew) > 0; });
    EXPECT_GT(all, others.size());
    ExpectSamePaths(others, before, 0.03);
  }
  EXPECT_GT(before.size(), 20U);
}

// The same word with twice the probability is cheaper by log 2 wherever it is said once.
TEST_P(ChangedGraph, AnAddedWordCostsWhatItIsGiven) {
  std::map<Words, double> paths[2];
  for (const int i : {0, 1}) {
    WordAutomaton words = graph_.parts()->words();
    words.AddWords({{kNew, 4.0F - static_cast<float>(i) * std::log(2.0F)}});
    paths[i] = PathsOf(With("NEW P0 P1\n", std::move(words)));
  }
  int compared = 0;
  for (const auto& path : paths[0]) {
    if (std::ranges::count(path.first, kNew) != 1) continue;
    EXPECT_NEAR(path.second - paths[1].at(path.first), std::log(2.0), 0.03);
    ++compared;
  }
  EXPECT_GT(compared, 10);
}

// Sentences of a model without <s> begin where it backs off to.
TEST_P(ChangedGraph, AWordIsAddedToAModelThatStartsWithoutHistory) {
  const auto arpa = NgramModel::ParseArpa(
      "\\data\\\nngram 1=5\nngram 2=2\n\\1-grams:\n-0.7 </s>\n-0.7 A -0.2\n-0.7 B -0.3\n-0.7 C\n-0.7 D\n\\2-grams:\n"
      "-0.2 A B\n-0.3 B C\n\\end\\\n",
      "lm.arpa");
  fst::StdVectorFst grammar;
  NgramToFst(
      arpa, [&](std::string_view w) { return lexicon_.FindWord(w); }, lexicon_.backoff_word(), &grammar);
  WordAutomaton words = WordAutomaton::FromFst(grammar, lexicon_.backoff_word(), 1000);
  ASSERT_GT(words.num_states(), 1);
  ASSERT_EQ(words.base_state(), words.start());
  ASSERT_TRUE(TakesWords(words));
  words.AddWords({{kNew, OrdinaryWordCost(words)}});
  const auto paths = PathsOf(With("NEW P0 P1\n", std::move(words)));
  EXPECT_TRUE(std::ranges::any_of(paths, [](const auto& path) { return std::ranges::count(path.first, kNew) > 0; }));
}

TEST_P(ChangedGraph, AnotherLanguageModelIsAsIfBuiltWithIt) {
  const WordAutomaton other = Model({{"C", "C"}, {"D"}, {"C", "D"}}, lexicon_);
  const auto said = LoadPronunciationModel(folder_.path());
  const hmm::PronunciationModel* const model = said ? &*said : nullptr;
  const testing::TemporaryFolder folder;
  SaveParts(GraphParts(BuildLexiconGraph(model_, lexicon_, {}, model), other), model_, lexicon_, model, "test", {},
            folder.path());
  const Graph built = Graph::Load(folder.path(), model_);
  const std::map<Words, double> paths = PathsOf(With("", other));
  EXPECT_NE(paths.size(), PathsOf(graph_).size());
  ExpectSamePaths(paths, PathsOf(built), 0.03);
}

// A grammar without back-off has no place where any word may stand.
TEST(WordCosts, AreOfTheMedianWordOrAShareWhereAllIsForgotten) {
  const auto automaton = [](int states, std::initializer_list<float> costs) {
    fst::StdVectorFst grammar;
    for (int s = 0; s < states; ++s) grammar.AddState();
    grammar.SetStart(0);
    grammar.SetFinal(states - 1, 0.0F);
    int32_t word = 0;
    for (const float cost : costs) {
      ++word;
      grammar.AddArc(0, {word, word, cost, states - 1});
    }
    return WordAutomaton::FromFst(grammar, 100, 1000);
  };
  EXPECT_TRUE(TakesWords(automaton(1, {1.0F, 9.0F, 4.0F})));
  EXPECT_EQ(OrdinaryWordCost(automaton(1, {1.0F, 9.0F, 4.0F})), 4.0F);
  EXPECT_FALSE(TakesWords(automaton(2, {1.0F})));
  EXPECT_FALSE(TakesWords(automaton(1, {})));
  // Few words have 0.2 % each, more share 4 %, and very many are ordinary.
  const WordAutomaton words = automaton(1, {1.0F, 15.0F, 11.0F});
  EXPECT_FLOAT_EQ(NewWordCost(words, 1), -std::log(0.002F));
  EXPECT_FLOAT_EQ(NewWordCost(words, 20), -std::log(0.002F));
  EXPECT_FLOAT_EQ(NewWordCost(words, 200), -std::log(0.0002F));
  EXPECT_EQ(NewWordCost(words, 1000000), 11.0F);
  EXPECT_EQ(NewWordCost(automaton(1, {1.0F, 9.0F, 4.0F}), 1), 4.0F);
}

}  // namespace
}  // namespace antiphon::decode
