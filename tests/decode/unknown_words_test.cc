// Words that the lexicon lacks, spelled by its phone n-grams.
#include "decode/graph/unknown_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "decode/graph/changed_graph.h"
#include "decode/graph/graph_builder.h"
#include "decode/graph/graph_json.h"
#include "decode/graph/parts_builder.h"
#include "decode/toy_model.h"
#include "decode/toy_search.h"
#include "hmm/graph/openfst.h"
#include "hmm/graph/phone_ngrams.h"
#include "temporary_folder.h"

namespace antiphon::decode {
namespace {

using ::testing::HasSubstr;
using Fst = fst::StdVectorFst;

constexpr double kProbability = 0.125;

hmm::Lexicon LexiconOf(const std::string& text) {
  hmm::LexiconOptions options;
  options.silence_phones = {"SIL", "SPN"};
  return hmm::Lexicon::Parse(text, "lexicon.txt", options);
}

hmm::Lexicon TwoWords() { return LexiconOf("AB P0 P1\nBA P1 P0 P0\n<UNK> SPN\n"); }

// Any words, each as likely as the end.
Fst Loop(const hmm::Lexicon& lexicon) {
  Fst grammar;
  grammar.SetStart(grammar.AddState());
  grammar.SetFinal(0, 1.0F);
  for (int32_t word = 1; word <= lexicon.num_words(); ++word) {
    const std::string& name = lexicon.Word(word);
    if (name[0] != '<') grammar.AddArc(0, {word, word, 1.0F, 0});
  }
  return grammar;
}

// Costs of an input sequence: from `state`, ε and `#` labels not counted.
double CostOf(const Fst& fst, int state, const std::vector<int32_t>& labels, size_t at = 0) {
  if (at == labels.size()) return static_cast<double>(fst.Final(state).Value());
  double best = 1e9;
  for (fst::ArcIterator<Fst> it(fst, state); !it.Done(); it.Next()) {
    if (it.Value().ilabel != labels[at]) continue;
    best = std::min(best,
                    static_cast<double>(it.Value().weight.Value()) + CostOf(fst, it.Value().nextstate, labels, at + 1));
  }
  return best;
}

TEST(UnknownWords, AreSpelledByTheNgramsOfTheLexicon) {
  const hmm::Lexicon lexicon = TwoWords();
  constexpr int32_t kSymbol = 99;
  Fst fst;
  for (int i = 0; i < 3; ++i) fst.AddState();
  fst.SetStart(0);
  fst.SetFinal(1, 0.0F);
  fst.SetFinal(2, 0.5F);
  fst.AddArc(0, {kSymbol, 7, 0.25F, 1});
  fst.AddArc(0, {5, 5, 0.0F, 1});
  fst.AddArc(1, {kSymbol, 7, 0.75F, 2});
  SpellUnknownWord(lexicon, kSymbol, &fst);
  const int32_t p0 = lexicon.PronunciationsOf(lexicon.FindWord("AB"))[0].phones[0];
  const int32_t p1 = lexicon.PronunciationsOf(lexicon.FindWord("AB"))[0].phones[1];
  // Each word's beginning has a half; what follows is certain where it was seen once.
  const double half = std::log(2.0);
  EXPECT_NEAR(CostOf(fst, 0, {kSymbol, p0, p1, kSymbol}), 0.25 + half, 1e-5);
  EXPECT_NEAR(CostOf(fst, 0, {kSymbol, p1, p0, p0, kSymbol, kSymbol, p0, p1, kSymbol}), 1.5 + 2 * half, 1e-5);
  EXPECT_EQ(CostOf(fst, 0, {kSymbol, p0, p0, kSymbol}), 1e9) << "no word has these phones";
  EXPECT_NEAR(CostOf(fst, 0, {5}), 0, 1e-6) << "other arcs stay";
}

TEST(UnknownWords, StandWhereTheModelHasForgottenAll) {
  const hmm::Lexicon lexicon = TwoWords();
  Fst grammar;
  for (int i = 0; i < 2; ++i) grammar.AddState();
  grammar.SetStart(0);
  grammar.SetFinal(1, 0.0F);
  grammar.AddArc(0, {lexicon.backoff_word(), 0, 1.0F, 1});
  grammar.AddArc(1, {1, 1, 1.0F, 0});
  AddUnknownWord(lexicon, kProbability, &grammar);
  ASSERT_EQ(grammar.NumArcs(1), 2U);
  EXPECT_NEAR(CostOf(grammar, 1, {lexicon.unknown_word()}), -std::log(kProbability), 1e-5);
  AddUnknownWord(lexicon, 0.4, &grammar);
  EXPECT_EQ(grammar.NumArcs(1), 2U) << "what a language model says of <UNK> stays";
  EXPECT_EQ(grammar.NumArcs(0), 1U);
}

TEST(UnknownWords, AreRefusedWhereTheyHaveNoPlace) {
  const hmm::Lexicon none = LexiconOf("AB P0 P1\n");
  Fst loop = Loop(none);
  EXPECT_THAT([&] { AddUnknownWord(none, kProbability, &loop); },
              ::testing::ThrowsMessage<InputError>(HasSubstr("add the line '<UNK> SPN'")));
  const hmm::Lexicon lexicon = TwoWords();
  Fst sentence;
  for (int i = 0; i < 2; ++i) sentence.AddState();
  sentence.SetStart(0);
  sentence.SetFinal(1, 0.0F);
  sentence.AddArc(0, {1, 1, 0.0F, 1});
  EXPECT_THAT([&] { AddUnknownWord(lexicon, kProbability, &sentence); },
              ::testing::ThrowsMessage<InputError>(HasSubstr("never backs off")));
  const hmm::Lexicon longer = LexiconOf("AB P0 P1\n<UNK> SPN SPN\n");
  Fst l;
  EXPECT_THAT([&] { MarkUnknownWord(longer, {}, 99, &l); },
              ::testing::ThrowsMessage<InputError>(HasSubstr("with 2 phones")));
}

struct Both {
  Graph whole, composed;
};

Both BuildBoth(const hmm::HmmModel& model, const hmm::Lexicon& lexicon) {
  const GraphBuildOptions options = {.unknown_words = kProbability, .max_states = 20000};
  const Fst grammar = Loop(lexicon);
  Fst fst;
  BuildGraphFst(model, lexicon, grammar, options, &fst);
  return {GraphFromFst(fst, model, lexicon),
          GraphFromParts(BuildGraphParts(model, lexicon, grammar, options), model, lexicon)};
}

std::map<Words, double> Sentences(const Graph& graph, const Matrix& scores) {
  const Decoded decoded = Decode(graph, scores, Wide());
  if (!decoded.reached_final) return {};
  return AllPaths(Determinize(decoded.raw, {kScale, 1e6, 10000000}));
}

TEST(UnknownWords, AreHeardInBothKindsOfGraphsAtTheSameCost) {
  const hmm::Lexicon lexicon = TwoWords();
  const hmm::HmmModel model = ToyModel(lexicon, 2);
  const Both graphs = BuildBoth(model, lexicon);
  for (const uint64_t seed : {1, 2, 3}) {
    const Matrix scores = RandomToyScores(seed, 9, graphs.whole.num_pdfs());
    const std::map<Words, double> expected = Sentences(graphs.whole, scores);
    ExpectSamePaths(Sentences(graphs.composed, scores), expected, 0.03);
    int with_unknown = 0;
    for (const auto& [words, cost] : expected) {
      with_unknown += static_cast<int>(std::count(words.begin(), words.end(), lexicon.unknown_word()) > 0);
    }
    EXPECT_GT(with_unknown, 0);
  }
}

TEST(UnknownWords, StayWhenWordsAreAdded) {
  const hmm::Lexicon lexicon = TwoWords();
  const hmm::HmmModel model = ToyModel(lexicon, 2);
  const testing::TemporaryFolder folder;
  const GraphBuildOptions options = {.unknown_words = kProbability, .max_states = 20000};
  SaveParts(*BuildGraphParts(model, lexicon, Loop(lexicon), options), model, lexicon, nullptr, "test", options,
            folder / "graph");
  const Graph graph = Graph::Load(folder / "graph", model);
  EXPECT_EQ(graph.info().unknown_words, kProbability);
  const auto larger = std::make_shared<const hmm::Lexicon>(LexiconOf("AB P0 P1\nBA P1 P0 P0\n<UNK> SPN\nNEW P1 P1\n"));
  WordAutomaton words = graph.parts()->words();
  words.AddWords({{larger->FindWord("NEW"), 1.0F}});
  const Graph more = WithLexiconAndWords(graph, model, larger, {}, words, "test");
  const Matrix scores = RandomToyScores(4, 8, more.num_pdfs());
  const auto says = [&](const char* word) {
    int count = 0;
    for (const auto& [said, cost] : Sentences(more, scores)) {
      count += static_cast<int>(std::count(said.begin(), said.end(), larger->FindWord(word)) > 0);
    }
    return count > 0;
  };
  EXPECT_TRUE(says("NEW"));
  EXPECT_TRUE(says("<UNK>"));
}

}  // namespace
}  // namespace antiphon::decode
