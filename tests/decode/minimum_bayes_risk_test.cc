#include "decode/lattice/minimum_bayes_risk.h"

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

#include "base/edit_distance.h"
#include "decode/lattice/expected_alignment.h"
#include "decode/lattice/path_by_places.h"
#include "random_lattice.h"

namespace antiphon::decode {
namespace {

constexpr LatticeWeights kByRisk{.acoustic_scale = 0.1, .word_penalty = 0.0, .risk_scale = 1.0};
constexpr int kAllPaths = 1000000;

int64_t Errors(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  return static_cast<int64_t>(EditDistance(std::span<const int32_t>(a), std::span<const int32_t>(b)));
}

// Expected errors of `words`, path by path.
double Risk(const Lattice& lattice, const LatticeWeights& weights, const std::vector<int32_t>& words) {
  double risk = 0.0, total = 0.0;
  for (const LatticePath& path : NBest(lattice, weights, kAllPaths)) {
    const double mass = std::exp(-weights.risk_scale * path.cost.Total(weights.acoustic_scale));
    risk += mass * static_cast<double>(Errors(path.words, words));
    total += mass;
  }
  return risk / total;
}

// "1 2" is the likeliest path, but the first word is a 3 more often than not.
TEST(MinimumBayesRisk, AsksEachPlace) {
  Lattice lattice;
  lattice.states.resize(4);
  const auto arc = [](int32_t to, int32_t word, double probability) {
    return LatticeArc{to, word, {-std::log(probability), 0.0}, {}};
  };
  lattice.states[0].arcs = {arc(1, 1, 0.4), arc(2, 3, 0.6)};
  lattice.states[1].arcs = {arc(3, 2, 1.0)};
  lattice.states[2].arcs = {arc(3, 4, 0.45), arc(3, 5, 0.3), arc(3, 6, 0.25)};
  lattice.states[3].is_final = true;
  EXPECT_EQ(BestPath(lattice, kByRisk).words, (std::vector<int32_t>{1, 2}));
  // "3 2" is what the places say, and no path; "3 4" is right most often of the paths.
  EXPECT_EQ(MinimumBayesRiskPath(lattice, kByRisk).words, (std::vector<int32_t>{3, 4}));
  EXPECT_EQ(ChosenPath(lattice, kByRisk).words, (std::vector<int32_t>{3, 4}));
  EXPECT_EQ(ChosenPath(lattice, {0.1, 0.0, 0.0}).words, (std::vector<int32_t>{1, 2}));
}

// Errors are counted against all paths, one by one. What is found is a local optimum: often the likeliest path itself.
TEST(MinimumBayesRisk, IsNoWorseThanTheLikeliestPathAndOftenBetter) {
  int better = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Lattice lattice = Determinize(RandomLattice(seed), {0.1, 100, 100000});
    const double risk = Risk(lattice, kByRisk, MinimumBayesRiskPath(lattice, kByRisk).words);
    const double likeliest = Risk(lattice, kByRisk, BestPath(lattice, kByRisk).words);
    EXPECT_LE(risk, likeliest + 1e-9) << "seed " << seed;
    better += risk < likeliest - 1e-9 ? 1 : 0;
  }
  EXPECT_GE(better, 4);
}

// With probabilities that know only the best path nothing else can be better.
TEST(MinimumBayesRisk, OfSureProbabilitiesIsTheLikeliestPath) {
  const Lattice lattice = Determinize(RandomLattice(5), {0.1, 100, 100000});
  const LatticePath best = BestPath(lattice, kByRisk);
  const LatticePath found = MinimumBayesRiskPath(lattice, {0.1, 0.0, 1000.0});
  EXPECT_EQ(found.words, best.words);
  EXPECT_EQ(found.alignment, best.alignment);
  EXPECT_NEAR(found.cost.Total(0.1), best.cost.Total(0.1), 1e-9);
}

TEST(ExpectedAlignment, EachPlaceHasAWholeProbability) {
  const Lattice lattice = Determinize(RandomLattice(6), {0.1, 100, 100000});
  const std::vector<int32_t> words = BestPath(lattice, kByRisk).words;
  const auto places = ExpectedAlignment(lattice, kByRisk).Places(words);
  ASSERT_EQ(places.size(), 2 * words.size() + 1);
  for (const WordPosteriors& place : places) {
    double sum = 0.0;
    for (const auto& [word, mass] : place) sum += mass;
    EXPECT_NEAR(sum, 1.0, 1e-9);
  }
}

// Each word of an utterance that nobody doubts is as sure as can be, and costs nothing.
TEST(ExpectedAlignment, OfOnePathIsSure) {
  Lattice lattice;
  lattice.states.resize(3);
  lattice.states[0].arcs = {{1, 7, {2.0, 5.0}, {}}};
  lattice.states[1].arcs = {{2, 8, {1.0, 3.0}, {}}};
  lattice.states[2].is_final = true;
  ExpectedAlignment alignment(lattice, kByRisk);
  const auto places = alignment.Places(std::vector<int32_t>{7, 8});
  EXPECT_EQ(places[1], (WordPosteriors{{7, 1.0}}));
  EXPECT_EQ(places[3], (WordPosteriors{{8, 1.0}}));
  EXPECT_NEAR(alignment.risk(), 0.0, 1e-9);
}

// Against every path, each with its best way through the places.
TEST(PathByPlaces, IsTheLeastWrongOfAllPaths) {
  const auto wrong = [](const std::vector<WordPosteriors>& places, const std::vector<int32_t>& words) {
    std::vector<std::vector<double>> table(places.size() + 1, std::vector<double>(words.size() + 1, INFINITY));
    const auto at = [&](size_t place, int32_t word) {
      for (const auto& [there, mass] : places[place]) {
        if (there == word) return 1.0 - mass;
      }
      return 1.0;
    };
    table[0][0] = 0.0;
    for (size_t p = 0; p <= places.size(); ++p) {
      for (size_t w = 0; w <= words.size(); ++w) {
        if (p > 0) table[p][w] = std::min(table[p][w], table[p - 1][w] + at(p - 1, 0));
        if (w > 0) table[p][w] = std::min(table[p][w], table[p][w - 1] + 1.0);
        if (p > 0 && w > 0) table[p][w] = std::min(table[p][w], table[p - 1][w - 1] + at(p - 1, words[w - 1]));
      }
    }
    return table.back().back();
  };
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Lattice lattice = Determinize(RandomLattice(seed), {0.1, 100, 100000});
    const auto places = ExpectedAlignment(lattice, kByRisk).Places(BestPath(lattice, kByRisk).words);
    double least = INFINITY;
    for (const LatticePath& path : NBest(lattice, kByRisk, kAllPaths))
      least = std::min(least, wrong(places, path.words));
    EXPECT_NEAR(wrong(places, PathByPlaces(lattice, kByRisk, places).words), least, 1e-9) << "seed " << seed;
  }
}

}  // namespace
}  // namespace antiphon::decode
