#include "decode/lattice/lm_rescore.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "decode/graph/graph_parts.h"
#include "decode/graph/parts_builder.h"
#include "decode/lm/ngram_estimate.h"
#include "decode/search/matrix_scores.h"
#include "decode/search/recognize.h"
#include "decode/toy_model.h"
#include "decode/toy_search.h"
#include "hmm/graph/openfst.h"
#include "temporary_folder.h"

namespace antiphon::decode {
namespace {

const std::vector<std::string> kWords = {"<eps>", "a", "b", "c"};

NgramModel Model(int order) {
  return EstimateNgram({{"a", "b", "a"}, {"b", "a", "c"}, {"c", "c", "a", "b"}, {"a"}}, {}, {order, "witten-bell", 1});
}

// Costs of a sentence by a model.
double Cost(const NgramModel& lm, const std::vector<int32_t>& words) {
  double cost = 0.0;
  int32_t state = lm.StartState();
  for (const int32_t word : words) {
    const auto step = lm.Step(state, lm.WordId(kWords[word]));
    cost -= step.log_prob;
    state = step.next_state;
  }
  return cost - lm.Step(state, lm.WordId("</s>")).log_prob;
}

// All sentences of three words; costs are the acoustic ones alone.
Lattice AllSentences() {
  Lattice lattice;
  lattice.states.resize(4);
  for (int32_t s = 0; s < 3; ++s) {
    for (int32_t w = 1; w <= 3; ++w) lattice.states[s].arcs.push_back({s + 1, w, {0.0, 1.5 * w}, {}});
  }
  lattice.states[3].is_final = true;
  return lattice;
}

std::map<std::vector<int32_t>, LatticeCost> Paths(const Lattice& lattice) {
  std::map<std::vector<int32_t>, LatticeCost> paths;
  for (const LatticePath& path : NBest(lattice, {0.1, 0.0}, 1000))
    EXPECT_TRUE(paths.emplace(path.words, path.cost).second);
  return paths;
}

TEST(LmRescorer, ExchangesTheLanguageModelOnEveryPath) {
  const NgramModel small = Model(1), large = Model(3);
  const auto before = Paths(AllSentences());
  const auto after = Paths(LmRescorer(Model(1), Model(3), kWords).Rescore(AllSentences()));
  ASSERT_EQ(after.size(), 27U);
  for (const auto& [words, cost] : after) {
    EXPECT_NEAR(cost.graph, Cost(large, words) - Cost(small, words), 1e-4);
    EXPECT_EQ(cost.acoustic, before.at(words).acoustic);
  }
}

TEST(LmRescorer, ThereAndBackChangesNothing) {
  const Lattice there = LmRescorer(Model(1), Model(3), kWords).Rescore(AllSentences());
  const Lattice back = LmRescorer(Model(3), Model(1), kWords).Rescore(there);
  for (const auto& [words, cost] : Paths(back)) EXPECT_NEAR(cost.graph, 0.0, 1e-4);
}

TEST(LmRescorer, LeavesUnknownWordsAsTheyAre) {
  const Lattice rescored =
      LmRescorer(Model(1), EstimateNgram({{"a", "b"}}, {}, {2, "witten-bell", 1}), kWords).Rescore(AllSentences());
  for (const auto& [words, cost] : Paths(rescored)) {
    if (words == std::vector<int32_t>{3, 3, 3}) {
      EXPECT_LT(std::abs(cost.graph), 5.0);
    }
  }
  EXPECT_TRUE(LmRescorer(Model(1), Model(3), kWords).Rescore({}).empty());
}

// No path of an unfinished utterance has paid for a sentence end, so that there is none to exchange.
TEST(LmRescorer, ExchangesNoSentenceEndThatIsNotThere) {
  hmm::LexiconOptions phones;
  phones.silence_phones = {"SIL"};
  const hmm::Lexicon lexicon = hmm::Lexicon::Parse("a P0\nb P1\nc P2\n", "lexicon.txt", phones);
  const hmm::HmmModel model = ToyModel(lexicon, 2);
  fst::StdVectorFst grammar;
  for (int s = 0; s <= 4; ++s) grammar.AddState();
  grammar.SetStart(0);
  grammar.SetFinal(4, 0.0F);
  for (int s = 0; s < 4; ++s) {
    for (int32_t word = 1; word <= 3; ++word) grammar.AddArc(s, {word, word, 1.0F, s + 1});
  }
  const testing::TemporaryFolder folder;
  const GraphParts parts(BuildLexiconGraph(model, lexicon, {}),
                         WordAutomaton::FromFst(grammar, lexicon.backoff_word(), 100));
  SaveParts(parts, model, lexicon, nullptr, "test", {}, folder.path());
  const Graph graph = Graph::Load(folder.path(), model);
  const LmRescorer rescorer(Model(1), Model(3), graph.words());
  RecognizeOptions options;
  options.search = Wide();
  // Four words have four phones, of a frame each at least.
  MatrixScores scores(RandomToyScores(7, 3, graph.num_pdfs()));
  const Recognition plain = Recognizer(graph, model, options).Recognize(scores, {0.1, 0.0});
  EXPECT_NE(plain.remark.find("no hypothesis ends"), std::string::npos) << plain.remark;
  const Recognition rescored = Recognizer(graph, model, options, &rescorer).Recognize(scores, {0.1, 0.0});
  const auto unfinished = Paths(rescorer.Rescore(plain.lattice, {}, /*ends=*/false));
  const auto finished = Paths(rescorer.Rescore(plain.lattice));
  const auto found = Paths(rescored.lattice);
  ASSERT_EQ(found.size(), unfinished.size());
  EXPECT_GT(found.size(), 3U);
  double largest = 0.0;
  for (const auto& [words, cost] : found) {
    EXPECT_NEAR(cost.graph, unfinished.at(words).graph, 1e-4);
    largest = std::max(largest, std::abs(cost.graph - finished.at(words).graph));
  }
  EXPECT_GT(largest, 0.1) << "the models say the same of a sentence end";
}

}  // namespace
}  // namespace antiphon::decode
