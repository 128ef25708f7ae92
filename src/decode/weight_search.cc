#include "decode/weight_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/edit_distance.h"
#include "base/error.h"

namespace antiphon::decode {

WeightSearch::WeightSearch(const WeightSearchOptions& options) : options_(options) {
  if (options.lm_weights.empty() || options.word_penalties.empty()) {
    throw UsageError("lm-weights and word-penalties need at least one value each");
  }
  for (const double penalty : options.word_penalties) {
    for (const double weight : options.lm_weights) grid_.push_back({weight, penalty, 0});
  }
}

std::vector<int64_t> WeightSearch::Errors(const Lattice& lattice, std::span<const int32_t> reference) const {
  std::vector<int64_t> errors;
  for (const Point& point : grid_) {
    std::vector<int32_t> words;
    if (!lattice.empty()) words = BestPath(lattice, point.weights()).words;
    errors.push_back(static_cast<int64_t>(EditDistance(std::span<const int32_t>(words), reference)));
  }
  return errors;
}

void WeightSearch::Add(std::span<const int64_t> errors) {
  CHECK_EQ(errors.size(), grid_.size());
  for (size_t i = 0; i < errors.size(); ++i) grid_[i].errors += errors[i];
}

const WeightSearch::Point& WeightSearch::Best() const {
  const auto least =
      std::min_element(grid_.begin(), grid_.end(), [](const Point& a, const Point& b) { return a.errors < b.errors; });
  // Small sets leave many pairs equal; the one amid them is the safest.
  double log_weight = 0.0, penalty = 0.0, count = 0.0;
  for (const Point& point : grid_) {
    if (point.errors != least->errors) continue;
    log_weight += std::log(point.lm_weight);
    penalty += point.word_penalty;
    count += 1.0;
  }
  const auto distance = [&](const Point& point) {
    return std::abs(std::log(point.lm_weight) - log_weight / count) +
           0.1 * std::abs(point.word_penalty - penalty / count);
  };
  const Point* best = nullptr;
  for (const Point& point : grid_) {
    if (point.errors == least->errors && (best == nullptr || distance(point) < distance(*best))) best = &point;
  }
  return *best;
}

std::string WeightSearch::EdgeWarning() const {
  const auto at_edge = [](double value, const std::vector<double>& list) {
    const auto [low, high] = std::minmax_element(list.begin(), list.end());
    return list.size() > 1 && (value == *low || value == *high);
  };
  // No penalty is a natural end of its list.
  const Point& best = Best();
  if (at_edge(best.lm_weight, options_.lm_weights)) {
    return fmt::format("the best language model weight, {}, is at the end of the list: lengthen lm-weights",
                       best.lm_weight);
  }
  if (best.word_penalty != 0 && at_edge(best.word_penalty, options_.word_penalties)) {
    return fmt::format("the best word penalty, {}, is at the end of the list: lengthen word-penalties",
                       best.word_penalty);
  }
  return "";
}

}  // namespace antiphon::decode
