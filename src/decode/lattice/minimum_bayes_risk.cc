#include "decode/lattice/minimum_bayes_risk.h"

#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "decode/lattice/expected_alignment.h"
#include "decode/lattice/path_by_places.h"

namespace antiphon::decode {
namespace {

// The risk falls by each turn; differences of rounding must not turn for ever.
constexpr int kMostTurns = 50;
constexpr double kLeastGain = 1e-6;

// What most of the probability says at each place. Of equal ones what stood there stays.
std::vector<int32_t> LikeliestWords(const std::vector<WordPosteriors>& places, std::span<const int32_t> hypothesis,
                                    double* gain) {
  std::vector<int32_t> words;
  for (size_t place = 0; place < places.size(); ++place) {
    const int32_t there = place % 2 == 1 ? hypothesis[place / 2] : 0;
    int32_t best = there;
    const double before = PosteriorOf(places[place], there);
    double most = before;
    for (const auto& [word, mass] : places[place]) {
      if (mass > most) most = mass, best = word;
    }
    *gain += most - before;
    if (best != 0) words.push_back(best);
  }
  return words;
}

}  // namespace

LatticePath MinimumBayesRiskPath(const Lattice& lattice, const LatticeWeights& weights) {
  CHECK(weights.risk_scale > 0.0);
  std::vector<int32_t> words = BestPath(lattice, weights).words;
  ExpectedAlignment alignment(lattice, weights, weights.risk_scale);
  std::vector<WordPosteriors> places = alignment.Places(words);
  for (int turn = 0; turn < kMostTurns; ++turn) {
    double gain = 0.0;
    std::vector<int32_t> better = LikeliestWords(places, words, &gain);
    if (gain < kLeastGain) break;
    words = std::move(better);
    places = alignment.Places(words);
  }
  return PathByPlaces(lattice, weights, places);
}

LatticePath ChosenPath(const Lattice& lattice, const LatticeWeights& weights) {
  return weights.risk_scale > 0.0 ? MinimumBayesRiskPath(lattice, weights) : BestPath(lattice, weights);
}

}  // namespace antiphon::decode
