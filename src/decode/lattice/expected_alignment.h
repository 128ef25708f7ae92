// All paths of a lattice aligned with one hypothesis by least edit distance, in expectation.
//
// The hypothesis has places: before each word, for each word, and after the last. What paths say at a place, with
// which posterior probability, is the statistics of minimum Bayes risk decoding. Acoustic scores keep the scale that
// the weights give them.
//
// Source: Xu, Povey, Mangu, Zhu, Minimum Bayes risk decoding and system combination, Computer Speech and Language 2011.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "decode/lattice/lattice.h"

namespace antiphon::decode {

/// What stands at a place: words with their posterior probabilities, 0 for none; together 1.
using WordPosteriors = std::vector<std::pair<int32_t, double>>;

/// Of a word at a place; 0 for one that no path says there.
double PosteriorOf(const WordPosteriors& place, int32_t word);

class ExpectedAlignment {
 public:
  /// The lattice must be determinised and not empty. Probabilities are of costs times `scale`.
  ExpectedAlignment(const Lattice& lattice, const LatticeWeights& weights, double scale = 1.0);

  /// 2n + 1 places for n words; word i stands at 2i + 1. The words of a place are in the order of their ids.
  std::vector<WordPosteriors> Places(std::span<const int32_t> hypothesis);
  /// Expected number of word errors of the last hypothesis that Places was asked for.
  double risk() const { return distance_.back(); }

 private:
  struct Edge {
    int32_t from;
    int32_t to;
    int32_t word;
    double probability;  // of the arc among all that enter `to`
  };
  enum class Step : uint8_t { kMatch, kInsert, kDelete };

  void CollectArcs(const Lattice& lattice, const LatticeWeights& weights, double scale);
  void Forward();
  void Align(const Edge& arc);
  std::vector<WordPosteriors> Backward();

  size_t num_states_;
  size_t columns_ = 0;
  std::vector<int32_t> reference_;
  std::vector<Edge> arcs_;
  std::vector<double> distance_, row_;
  std::vector<Step> steps_;
};

}  // namespace antiphon::decode
