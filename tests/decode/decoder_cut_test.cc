// A search that is cut in two while it goes on, as endless speech is.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>

#include "decode/graph/graph_builder.h"
#include "decode/graph/parts_builder.h"
#include "decode/lm/ngram_estimate.h"
#include "decode/lm/ngram_fst.h"
#include "decode/search/decoder.h"
#include "decode/search/matrix_scores.h"
#include "decode/toy_model.h"
#include "decode/toy_search.h"
#include "hmm/graph/openfst.h"

namespace antiphon::decode {
namespace {

// Cut where the best path is at `frame`, once `searched` frames are known.
struct InTwo {
  LatticePath before, behind;
  Lattice lattice_before, lattice_behind;
};
InTwo DecodeInTwo(const Graph& graph, const Matrix& scores, const DecoderOptions& options, int searched, int frame) {
  Decoder decoder(graph, options);
  MatrixScores first(scores);
  decoder.Advance(first, searched);
  InTwo cut;
  const PathAnchor anchor = decoder.BestAnchors()[static_cast<size_t>(frame)];
  cut.lattice_before = decoder.CutBefore(frame, anchor);
  cut.before = BestPath(cut.lattice_before, kWeights);
  EXPECT_EQ(static_cast<int>(cut.before.words.size()), anchor.num_words);
  EXPECT_EQ(decoder.num_frames(), searched - frame);
  Matrix rest(scores.rows() - frame, scores.cols());
  std::copy(scores.Row(frame).data(), scores.data() + scores.size(), rest.data());
  MatrixScores second(std::move(rest));
  decoder.Advance(second);
  decoder.Finish();
  cut.behind = decoder.BestPath();
  cut.lattice_behind = decoder.RawLattice();
  return cut;
}

TEST_P(Search, CutOnItsBestPathIsTheSameSearch) {
  for (const int frame : {1, 24, 25, 60, 119}) {
    Decoder whole(graph_, options_);
    MatrixScores all(scores_);
    whole.Advance(all);
    const LatticePath unended = whole.BestPath();
    whole.Finish();
    const LatticePath best = whole.BestPath();
    const InTwo cut = DecodeInTwo(graph_, scores_, options_, 120, frame);
    EXPECT_TRUE(std::equal(cut.before.alignment.begin(), cut.before.alignment.end(), unended.alignment.begin()));
    // The end may be another one's, whose way does not lead through the cut.
    if (!std::equal(cut.before.alignment.begin(), cut.before.alignment.end(), best.alignment.begin())) continue;
    LatticePath joined = cut.before;
    joined.words.insert(joined.words.end(), cut.behind.words.begin(), cut.behind.words.end());
    joined.alignment.insert(joined.alignment.end(), cut.behind.alignment.begin(), cut.behind.alignment.end());
    EXPECT_EQ(joined.words, best.words) << frame;
    EXPECT_EQ(joined.alignment, best.alignment) << frame;
    EXPECT_NEAR((cut.before.cost + cut.behind.cost).Total(kScale), best.cost.Total(kScale), 1e-2);
    EXPECT_NEAR(BestPath(cut.lattice_behind, kWeights).cost.Total(kScale), cut.behind.cost.Total(kScale), 1e-2);
  }
}

TEST_P(Search, GoesOnBehindACut) {
  const LatticePath best = Decode(graph_, scores_, options_).best;
  int same = 0;
  for (const int frame : {5, 30, 49}) {
    const InTwo cut = DecodeInTwo(graph_, scores_, options_, 80, frame);
    EXPECT_EQ(cut.before.alignment.size() + cut.behind.alignment.size(), 120U);
    EXPECT_NEAR(cut.before.cost.acoustic + cut.behind.cost.acoustic,
                Recost(graph_, scores_,
                       [&] {
                         LatticePath joined = cut.before;
                         joined.alignment.insert(joined.alignment.end(), cut.behind.alignment.begin(),
                                                 cut.behind.alignment.end());
                         return joined;
                       }()),
                1e-2);
    const double total = (cut.before.cost + cut.behind.cost).Total(kScale);
    EXPECT_GE(total, best.cost.Total(kScale) - 1e-2);
    if (std::equal(cut.before.alignment.begin(), cut.before.alignment.end(), best.alignment.begin())) {
      EXPECT_NEAR(total, best.cost.Total(kScale), 1e-2);
      ++same;
    }
  }
  EXPECT_GE(same, 1);
}

TEST_P(ToySearch, PathsThroughACutArePathsOfTheWhole) {
  for (int frame = 1; frame < 4; ++frame) {
    const InTwo cut = DecodeInTwo(graph_, scores_, Wide(), 4, frame);
    std::map<Words, double> joined;
    for (const auto& [first, cost] : AllPaths(cut.lattice_before)) {
      for (const auto& [second, more] : AllPaths(cut.lattice_behind)) {
        Words words = first;
        words.insert(words.end(), second.begin(), second.end());
        const auto [it, added] = joined.emplace(words, cost + more);
        if (!added) it->second = std::min(it->second, cost + more);
      }
    }
    const auto all = AllPaths(Decode(graph_, scores_, Wide()).raw);
    EXPECT_FALSE(joined.empty());
    for (const auto& [words, cost] : joined) {
      ASSERT_TRUE(all.contains(words));
      EXPECT_GE(cost, all.at(words) - 1e-3);
    }
  }
}

// With room for nothing, states of the frames before the last are soon forgotten, those where the cut is too.
TEST(Composition, IsCutWhereItsStatesAreForgotten) {
  const hmm::Lexicon lexicon = ToyLexicon();
  const hmm::HmmModel model = ToyModel(lexicon, 2);
  fst::StdVectorFst grammar;
  NgramToFst(
      EstimateNgram({{"SEE", "A"}, {"A", "SEA"}, {"ATE"}}, {}, {2, "witten-bell", 1}),
      [&](std::string_view w) { return lexicon.FindWord(w); }, lexicon.backoff_word(), &grammar);
  const Graph graph =
      GraphFromParts(std::make_shared<const GraphParts>(BuildLexiconGraph(model, lexicon, {}),
                                                        WordAutomaton::FromFst(grammar, lexicon.backoff_word(), 1000)),
                     model, lexicon);
  DecoderOptions options = Wide();
  options.prune_interval = 3;
  Decoder roomy(graph, options);
  options.graph_cache_mb = 0;
  Decoder tight(graph, options);
  MatrixScores source(RandomToyScores(5, 7, graph.num_pdfs()));
  const auto cut = [&](Decoder& decoder) {
    decoder.Advance(source);
    return BestPath(decoder.CutBefore(2, decoder.BestAnchors()[2]), kWeights);
  };
  const LatticePath expected = cut(roomy), found = cut(tight);
  EXPECT_EQ(found.words, expected.words);
  EXPECT_EQ(found.alignment, expected.alignment);
  EXPECT_EQ(found.alignment.size(), 2U);
  EXPECT_NEAR(found.cost.graph, expected.cost.graph, 1e-3);
}

}  // namespace
}  // namespace antiphon::decode
