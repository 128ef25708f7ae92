// Chooses the weight of the language model and the word penalty on a development set.
//
// Every lattice is weighed anew with every pair of values; the pair with the fewest word errors over all utterances
// wins, of equal ones the one amid them. While the best stands at the end of a list, the list is lengthened:
//
//   do {
//     for each utterance: search.Add(search.Errors(lattice, reference));
//   } while (search.Extend());
//
// Never to be run on a test set.
// Threads: Errors may run together; Add and Extend belong to one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/options.h"
#include "decode/lattice/lattice.h"

namespace antiphon::decode {

struct WeightSearchOptions {
  std::vector<double> lm_weights;
  std::vector<double> word_penalties = {0, 0.5, 1};

  template <class V>
  void Visit(V& v) {
    v("lm-weights", lm_weights, Range{0.01, 1000},
      "weights of the language model (1 / acoustic scale) to try, more if the best is at an end; empty: from half the "
      "inverse of the search's acoustic scale to 1.7 times it, 5 to 17 for models that are no chain models");
    v("word-penalties", word_penalties, Range{-100, 100},
      "costs per word to try; more if the best is at the end away from 0");
  }
};

/// Word errors of an utterance whose pieces have a lattice each, their paths chosen by `weights`.
int64_t WordErrors(std::span<const Lattice> pieces, std::span<const int32_t> reference, const LatticeWeights& weights);

class WeightSearch {
 public:
  /// `acoustic_scale`: the search's.
  explicit WeightSearch(const WeightSearchOptions& options, double acoustic_scale = 0.1);

  /// Word errors of one utterance for each pair of this round, the last ones of grid(). Words of `reference` that
  /// cannot be recognised are −1.
  std::vector<int64_t> Errors(const Lattice& lattice, std::span<const int32_t> reference) const {
    return ErrorsOfPieces(std::span(&lattice, 1), reference);
  }
  /// The same of an utterance whose pieces have a lattice each.
  std::vector<int64_t> ErrorsOfPieces(std::span<const Lattice> pieces, std::span<const int32_t> reference) const;
  void Add(std::span<const int64_t> errors);

  /// Begins another round, with values beyond the ends at which the best pair stands. False if it stands at none, or
  /// after so many rounds that something else must be wrong: see EdgeWarning.
  bool Extend();

  struct Point {
    double lm_weight;
    double word_penalty;
    int64_t errors;
    LatticeWeights weights() const { return {1.0 / lm_weight, word_penalty}; }
  };
  const std::vector<Point>& grid() const { return grid_; }
  const Point& Best() const;
  /// A list would have to be still longer: the best weight is at its end. Empty if not.
  std::string EdgeWarning() const;

 private:
  void AddPoints(const std::vector<double>& lm_weights, const std::vector<double>& word_penalties);

  std::vector<double> lm_weights_;      // sorted
  std::vector<double> word_penalties_;  // sorted
  std::vector<Point> grid_;
  size_t round_begin_ = 0;  // in grid_
  int rounds_ = 0;
};

}  // namespace antiphon::decode
