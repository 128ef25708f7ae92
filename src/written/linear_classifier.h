// Multinomial logistic regression over hashed features: which of a few classes, from what is around a word.
//
// Threads: const methods may run together. Deterministic. Source: AdaGrad (Duchi, Hazan, Singer, JMLR 2011); hashing of
// features (Weinberger et al., ICML 2009).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace antiphon::written {

/// Buckets, each of which may stand for several features.
using Features = std::vector<uint32_t>;

class LinearClassifier {
 public:
  LinearClassifier(int num_classes, int num_buckets);
  /// `weights`: as weights() gives them.
  LinearClassifier(int num_classes, std::vector<float> weights);

  struct Example {
    Features features;
    int right = 0;  // class
  };
  /// Several passes over the examples, in an order that the seed gives.
  void Train(std::span<const Example> examples, int passes, double rate, uint64_t seed);

  /// Natural logarithms of the classes' probabilities.
  std::vector<double> LogProbabilities(const Features& features) const;

  int num_classes() const { return num_classes_; }
  uint32_t num_buckets() const { return static_cast<uint32_t>(weights_.size() / static_cast<size_t>(num_classes_)); }
  /// By bucket and class.
  const std::vector<float>& weights() const { return weights_; }

 private:
  int num_classes_;
  std::vector<float> weights_;
};

/// The bucket of a feature: its kind and what it says.
uint32_t BucketOf(std::string_view kind, std::string_view first, std::string_view second, uint32_t num_buckets);

}  // namespace antiphon::written
