// Chooses the weight of the language model and the word penalty on a development set.
//
// Every lattice is weighed anew with every pair of values; the pair with the fewest word errors over all utterances
// wins, the first of equal ones in the order of the lists. Never to be run on a test set.
//
// Threads: Errors may run together; Add belongs to one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/options.h"
#include "decode/lattice.h"

namespace antiphon::decode {

struct WeightSearchOptions {
  std::vector<double> lm_weights = {5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
  std::vector<double> word_penalties = {0, 0.5, 1};

  template <class V>
  void Visit(V& v) {
    v("lm-weights", lm_weights, Range{0.01, 1000}, "weights of the language model (1 / acoustic scale) to try");
    v("word-penalties", word_penalties, Range{-100, 100}, "costs per word to try");
  }
};

class WeightSearch {
 public:
  explicit WeightSearch(const WeightSearchOptions& options);

  /// Word errors of one utterance for each pair, in the order of grid(). Words of `reference` that cannot be recognised
  /// are −1.
  std::vector<int64_t> Errors(const Lattice& lattice, std::span<const int32_t> reference) const;
  void Add(std::span<const int64_t> errors);

  struct Point {
    double lm_weight;
    double word_penalty;
    int64_t errors;
    LatticeWeights weights() const { return {1.0 / lm_weight, word_penalty}; }
  };
  const std::vector<Point>& grid() const { return grid_; }
  const Point& Best() const;
  /// A list would have to be longer: the best weight is at its end. Empty if not.
  std::string EdgeWarning() const;

 private:
  WeightSearchOptions options_;
  std::vector<Point> grid_;
};

}  // namespace antiphon::decode
