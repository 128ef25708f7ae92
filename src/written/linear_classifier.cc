#include "written/linear_classifier.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/random.h"

namespace antiphon::written {

LinearClassifier::LinearClassifier(int num_classes, int num_buckets)
    : num_classes_(num_classes), weights_(static_cast<size_t>(num_classes) * static_cast<size_t>(num_buckets)) {}

LinearClassifier::LinearClassifier(int num_classes, std::vector<float> weights)
    : num_classes_(num_classes), weights_(std::move(weights)) {
  CHECK_EQ(weights_.size() % static_cast<size_t>(num_classes), size_t{0});
}

std::vector<double> LinearClassifier::LogProbabilities(const Features& features) const {
  std::vector<double> scores(static_cast<size_t>(num_classes_));
  for (const uint32_t feature : features) {
    const size_t first = size_t{feature} * static_cast<size_t>(num_classes_);
    for (size_t c = 0; c < scores.size(); ++c) scores[c] += static_cast<double>(weights_[first + c]);
  }
  const double highest = *std::ranges::max_element(scores);
  double sum = 0;
  for (const double score : scores) sum += std::exp(score - highest);
  for (double& score : scores) score -= highest + std::log(sum);
  return scores;
}

void LinearClassifier::Train(std::span<const Example> examples, int passes, double rate, uint64_t seed) {
  std::vector<float> squares(weights_.size(), 1e-6F);
  std::vector<size_t> order(examples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (int pass = 0; pass < passes; ++pass) {
    Rng rng(seed, static_cast<uint64_t>(pass));
    rng.Shuffle(std::span(order));
    for (const size_t e : order) {
      const Example& example = examples[e];
      const std::vector<double> scores = LogProbabilities(example.features);
      for (const uint32_t feature : example.features) {
        const size_t first = size_t{feature} * static_cast<size_t>(num_classes_);
        for (size_t c = 0; c < scores.size(); ++c) {
          const double gradient = (static_cast<int>(c) == example.right ? 1.0 : 0.0) - std::exp(scores[c]);
          squares[first + c] += static_cast<float>(gradient * gradient);
          weights_[first + c] +=
              static_cast<float>(rate * gradient / std::sqrt(static_cast<double>(squares[first + c])));
        }
      }
    }
  }
}

uint32_t BucketOf(std::string_view kind, std::string_view first, std::string_view second, uint32_t num_buckets) {
  uint64_t hash = 14695981039346656037ULL;  // FNV-1a, as the files that are written depend on it
  for (const std::string_view part : {kind, first, second}) {
    for (const char c : part) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    hash = (hash ^ 0xFFU) * 1099511628211ULL;
  }
  return static_cast<uint32_t>((hash >> 20) % num_buckets);
}

}  // namespace antiphon::written
