#include "decode/lattice/lattice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "decode/lattice/lattice_text.h"
#include "decode/lattice/weight_search.h"
#include "random_lattice.h"

namespace antiphon::decode {
namespace {

using ::testing::HasSubstr;

constexpr LatticeWeights kUsualWeights{0.1, 0.0};

TEST(Lattice, SurvivesItsText) {
  const Lattice lattice = Determinize(RandomLattice(1), {0.1, 100, 100000});
  const std::string text =
      LatticeToText("utt-1", lattice) + LatticeToText("utt-2", {}) + LatticeToText("utt-3", lattice);
  const auto again = ParseLattices(text, "lat");
  ASSERT_EQ(again.size(), 3U);
  EXPECT_EQ(again[0].first, "utt-1");
  EXPECT_TRUE(again[1].second.empty());
  const auto a = NBest(lattice, kUsualWeights, 50), b = NBest(again[2].second, kUsualWeights, 50);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].words, b[i].words);
    EXPECT_EQ(a[i].alignment, b[i].alignment);
    EXPECT_NEAR(a[i].cost.Total(0.1), b[i].cost.Total(0.1), 1e-4);
  }
}

// Of a recording that was cut: the best path of the whole is those of its pieces, one after another.
TEST(Lattice, PiecesAreOneText) {
  LatticeTextInPieces writer("long");
  std::string text;
  LatticePath joined;
  std::vector<Lattice> pieces;
  for (const uint64_t seed : {1, 2, 3, 4}) {
    const Lattice piece = seed == 3 ? Lattice() : Determinize(RandomLattice(seed), {0.1, 100, 100000});
    text += writer.Add(piece);
    if (piece.empty()) continue;
    pieces.push_back(piece);
    const LatticePath best = BestPath(piece, kUsualWeights);
    joined.words.insert(joined.words.end(), best.words.begin(), best.words.end());
    joined.alignment.insert(joined.alignment.end(), best.alignment.begin(), best.alignment.end());
    joined.cost = joined.cost + best.cost;
  }
  text += writer.Finish();
  const auto again = ParseLattices(text, "lat");
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].first, "long");
  const LatticePath best = BestPath(again[0].second, kUsualWeights);
  EXPECT_EQ(best.words, joined.words);
  EXPECT_EQ(best.alignment, joined.alignment);
  EXPECT_NEAR(best.cost.Total(0.1), joined.cost.Total(0.1), 1e-3);

  const std::vector<Lattice> apart = SplitPieces(again[0].second);
  ASSERT_EQ(apart.size(), pieces.size());
  for (size_t p = 0; p < pieces.size(); ++p) {
    ASSERT_EQ(apart[p].states.size(), pieces[p].states.size());
    EXPECT_EQ(apart[p].NumArcs(), pieces[p].NumArcs());
    const auto a = NBest(apart[p], kUsualWeights, 50), b = NBest(pieces[p], kUsualWeights, 50);
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].words, b[i].words);
      EXPECT_EQ(a[i].alignment, b[i].alignment);
      EXPECT_NEAR(a[i].cost.Total(0.1), b[i].cost.Total(0.1), 1e-4);
    }
  }
}

// A state that all paths go through is no joint, nor is one behind an end, or to which two arcs lead from one state.
TEST(Lattice, OnlyJointsDividePieces) {
  const auto pieces = [](const std::string& lines) {
    return SplitPieces(ParseLattices("u\n" + lines + "\n", "lat")[0].second).size();
  };
  EXPECT_EQ(pieces("0 1 5 1,2,3\n1 2 6 1,2,3\n2 0,0,\n"), 1U);
  EXPECT_EQ(pieces("0 1 5 1,2,3\n1 2 0 1,2,3\n2 0,0,\n"), 2U);
  EXPECT_EQ(pieces("0 1 5 1,2,3\n0 2 6 1,2,3\n1 2 0 1,2,3\n2 0,0,\n"), 1U);
  EXPECT_EQ(pieces("0 1 5 1,2,3\n1 0,0,\n1 2 0 1,2,3\n2 0,0,\n"), 1U);
  EXPECT_EQ(pieces("0 1 5 1,2,3\n1 2 0 1,2,3\n1 2 0 1,1,4\n2 0,0,\n"), 1U);
  EXPECT_EQ(pieces("0 1 0 1,2,3\n1 2 0 1,2,3\n2 0,0,\n"), 3U) << "pieces without words";
  EXPECT_TRUE(SplitPieces({}).empty());
}

TEST(Lattice, TextErrorsNameTheLine) {
  const auto error = [](const std::string& text) -> std::string {
    try {
      ParseLattices(text, "lat");
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(error("u\n0 1 5 1,2,3_4\n1 0,0,\n\n"), "");
  EXPECT_THAT(error("u\n1 0 5 1,2,3\n"), HasSubstr("lat:2: arcs must lead to higher states"));
  EXPECT_THAT(error("u\n0 1 5 1,2\n"), HasSubstr("lat:2: expected 'GRAPH,ACOUSTIC,IDS'"));
  EXPECT_THAT(error("u\n0 1 x 1,2,3\n"), HasSubstr("lat:2: expected a number"));
  EXPECT_THAT(error("u\n0 99999 1 1,2,3\n"), HasSubstr("out of range"));
  EXPECT_THAT(error("u\n0 1 1 nan,2,3\n"), HasSubstr("lat:2"));
  EXPECT_THAT(error("u v\n"), HasSubstr("lat:1"));
}

TEST(Lattice, WeighedAnewGivesOtherPaths) {
  const Lattice lattice = Determinize(RandomLattice(2), {0.1, 100, 100000});
  for (const double scale : {0.01, 0.1, 1.0}) {
    for (const double penalty : {-1.0, 0.0, 2.0}) {
      const LatticeWeights weights{scale, penalty};
      const auto cost = [&](const LatticePath& path) {
        return path.cost.Total(scale) + penalty * static_cast<double>(path.words.size());
      };
      const auto all = NBest(lattice, weights, 1000000);
      double least = INFINITY;
      for (const LatticePath& path : NBest(lattice, kUsualWeights, 1000000)) least = std::min(least, cost(path));
      EXPECT_NEAR(cost(BestPath(lattice, weights)), least, 1e-9);
      EXPECT_NEAR(cost(all.front()), least, 1e-9);
    }
  }
}

TEST(Lattice, OracleIsTheLeastErrorOfAnyPath) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Lattice lattice = Determinize(RandomLattice(seed), {0.1, 100, 100000});
    WeightSearch one({{10}, {0}});
    const std::vector<int32_t> reference = {1, 2, 3, 1};
    int64_t least = 100;
    for (const LatticePath& path : NBest(lattice, kUsualWeights, 1000000)) {
      Lattice chain;
      chain.states.resize(path.words.size() + 1);
      for (size_t i = 0; i < path.words.size(); ++i) {
        chain.states[i].arcs = {{static_cast<int32_t>(i) + 1, path.words[i], {}, {}}};
      }
      chain.states.back().is_final = true;
      least = std::min(least, one.Errors(chain, reference)[0]);
    }
    EXPECT_EQ(OracleErrors(lattice, reference), least);
  }
}

TEST(Lattice, TotalIsTheSumOverAllPaths) {
  const Lattice lattice = RandomLattice(3);
  double sum = 0.0;
  for (const LatticePath& path : NBest(lattice, kUsualWeights, 1000000)) sum += std::exp(-path.cost.Total(0.1));
  EXPECT_NEAR(TotalCost(lattice, kUsualWeights), -std::log(sum), 1e-9);
}

TEST(Lattice, DeterminisationStaysBelowItsLimit) {
  const Lattice lattice = RandomLattice(4);
  const Lattice whole = Determinize(lattice, {0.1, 100, 1000000});
  const Lattice narrow = Determinize(lattice, {0.1, 100, 20});
  EXPECT_GT(whole.NumArcs(), 20U);
  EXPECT_LE(narrow.NumArcs(), 20U);
  EXPECT_EQ(BestPath(narrow, kUsualWeights).words, BestPath(whole, kUsualWeights).words);
}

// A limit below the words of a path cannot be kept.
TEST(Lattice, DeterminisationLeavesTheBestPathWhole) {
  const Lattice lattice = RandomLattice(4);
  const Lattice narrow = Determinize(lattice, {0.1, 100, 1});
  const LatticePath best = BestPath(lattice, kUsualWeights);
  ASSERT_GT(best.words.size(), 1U);
  EXPECT_EQ(narrow.NumArcs(), best.words.size());
  EXPECT_EQ(BestPath(narrow, kUsualWeights).words, best.words);
  EXPECT_EQ(BestPath(narrow, kUsualWeights).alignment, best.alignment);
}

// Few arcs whose alignments have nothing in common: it is the work that has to stay below a limit then.
TEST(Lattice, DeterminisationStaysBelowTheWorkForItsLimit) {
  constexpr int kWays = 20;
  Lattice lattice;
  lattice.states.resize(kWays + 2);
  for (int way = 0; way < kWays; ++way) {
    const std::vector<int32_t> alignment(100, way + 1);
    lattice.states[0].arcs.push_back({way + 1, 1, {0.3 * way, 0.0}, lattice.AddAlignment(alignment)});
    lattice.states[way + 1].arcs.push_back({kWays + 1, way + 2, {}, {}});
  }
  lattice.states.back().is_final = true;
  const Lattice whole = Determinize(lattice, {0.1, 100, 1000});
  const Lattice narrow = Determinize(lattice, {0.1, 100, kWays + 1});
  EXPECT_EQ(whole.NumArcs(), kWays + 1U);
  EXPECT_LT(narrow.NumArcs(), whole.NumArcs());
  EXPECT_GT(narrow.NumArcs(), 2U);
  EXPECT_EQ(BestPath(narrow, kUsualWeights).words, BestPath(whole, kUsualWeights).words);
}

TEST(WeightSearch, FindsTheWeightsWithTheFewestErrors) {
  // Word 1 has the better language model score, word 2 the better acoustics.
  Lattice lattice;
  lattice.states.resize(2);
  lattice.states[0].arcs = {{1, 1, {1.0, 30.0}, {}}, {1, 2, {2.5, 10.0}, {}}};
  lattice.states[1].is_final = true;
  WeightSearch search({{5, 10, 20}, {0}});
  const std::vector<int32_t> reference = {1};
  search.Add(search.Errors(lattice, reference));
  search.Add(search.Errors({}, reference));
  EXPECT_EQ(search.Best().lm_weight, 20);
  EXPECT_EQ(search.Best().errors, 1);
  EXPECT_EQ(search.grid()[0].errors, 2);
  EXPECT_THAT(search.EdgeWarning(), HasSubstr("set other lm-weights"));
  EXPECT_THROW(WeightSearch(WeightSearchOptions{.lm_weights = {1}, .word_penalties = {}}), UsageError);
  // Around the weight that the search itself has.
  const WeightSearch of_chain_model(WeightSearchOptions{.lm_weights = {}, .word_penalties = {0}}, 1.0);
  EXPECT_EQ(of_chain_model.grid().front().lm_weight, 0.5);
  EXPECT_EQ(of_chain_model.grid().back().lm_weight, 1.7);
}

// Word errors as a function of the weights alone, with one least value.
WeightSearch SearchFor(double lm_weight, double word_penalty, WeightSearchOptions options) {
  WeightSearch search(options);
  size_t counted = 0;
  do {
    std::vector<int64_t> errors;
    for (; counted < search.grid().size(); ++counted) {
      const WeightSearch::Point& p = search.grid()[counted];
      errors.push_back(static_cast<int64_t>(
          1e6 * (std::abs(std::log(p.lm_weight / lm_weight)) + std::abs(p.word_penalty - word_penalty))));
    }
    search.Add(errors);
  } while (search.Extend());
  return search;
}

TEST(WeightSearch, LengthensAListWhileTheBestIsAtItsEnd) {
  const WeightSearchOptions options;
  for (const auto& [weight, penalty] : {std::pair{25.0, 0.0}, {1.25, 0.5}, {9.0, 3.0}, {30.0, 4.5}, {0.3, -0.0}}) {
    const WeightSearch search = SearchFor(weight, penalty, options);
    EXPECT_NEAR(std::log(search.Best().lm_weight / weight), 0, 0.3) << weight;
    EXPECT_NEAR(search.Best().word_penalty, penalty, 0.25) << penalty;
    EXPECT_EQ(search.EdgeWarning(), "");
    std::set<std::pair<double, double>> points;
    for (const auto& p : search.grid()) EXPECT_TRUE(points.emplace(p.lm_weight, p.word_penalty).second);
  }
  // A list of one value is meant so, and no penalty is a natural end.
  EXPECT_EQ(SearchFor(25, 0, {{10}, {0, 1}}).grid().size(), 2u);
  EXPECT_EQ(SearchFor(10, -3, {{9, 10, 11}, {0, 1}}).Best().word_penalty, 0);
  // What has no end is given up, with a warning.
  const WeightSearch endless = SearchFor(1e9, 0, options);
  EXPECT_THAT(endless.EdgeWarning(), HasSubstr("at the end of what was tried"));
}

TEST(WeightSearch, TakesTheMiddleOfEqualWeights) {
  Lattice lattice;
  lattice.states.resize(2);
  lattice.states[0].arcs = {{1, 1, {1.0, 1.0}, {}}};
  lattice.states[1].is_final = true;
  WeightSearch search({{5, 10, 20}, {0, 1, 2}});
  search.Add(search.Errors(lattice, std::vector<int32_t>{1}));
  EXPECT_EQ(search.Best().lm_weight, 10);
  EXPECT_EQ(search.Best().word_penalty, 1);
  EXPECT_EQ(search.EdgeWarning(), "");
}

}  // namespace
}  // namespace antiphon::decode
