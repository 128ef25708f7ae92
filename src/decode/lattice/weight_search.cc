#include "decode/lattice/weight_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/edit_distance.h"
#include "base/error.h"
#include "decode/lattice/minimum_bayes_risk.h"

namespace antiphon::decode {

namespace {

constexpr int kMostRounds = 8;
constexpr int kValuesPerRound = 3;

bool AtLowEnd(double value, const std::vector<double>& list) { return list.size() > 1 && value == list.front(); }
bool AtHighEnd(double value, const std::vector<double>& list) { return list.size() > 1 && value == list.back(); }
// No penalty is a natural end of its list.
bool AtEndOfPenalties(double value, const std::vector<double>& list) {
  return value != 0 && (AtLowEnd(value, list) || AtHighEnd(value, list));
}

// Values beyond the end of a sorted list at which `best` stands, spaced like the last two there, all above `bound`.
std::vector<double> Beyond(double best, const std::vector<double>& list, double bound) {
  const bool up = AtHighEnd(best, list);
  const size_t n = list.size();
  const double spacing = up ? list[n - 1] - list[n - 2] : list[0] - list[1];
  std::vector<double> values;
  double value = best;
  for (int i = 0; i < kValuesPerRound; ++i) {
    value = value + spacing > bound ? value + spacing : (value + bound) / 2;
    values.push_back(value);
  }
  return values;
}

std::vector<double> SortedOnce(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

}  // namespace

int64_t WordErrors(std::span<const Lattice> pieces, std::span<const int32_t> reference, const LatticeWeights& weights) {
  std::vector<int32_t> words;
  for (const Lattice& lattice : pieces) {
    if (lattice.empty()) continue;
    const std::vector<int32_t> of_piece = ChosenPath(lattice, weights).words;
    words.insert(words.end(), of_piece.begin(), of_piece.end());
  }
  return static_cast<int64_t>(EditDistance(std::span<const int32_t>(words), reference));
}

WeightSearch::WeightSearch(const WeightSearchOptions& options, double acoustic_scale)
    : lm_weights_(SortedOnce(options.lm_weights)), word_penalties_(SortedOnce(options.word_penalties)) {
  if (options.word_penalties.empty()) throw UsageError("word-penalties need at least one value");
  for (int tenths = 5; options.lm_weights.empty() && tenths <= 17; ++tenths) {
    lm_weights_.push_back(tenths / (10 * acoustic_scale));
  }
  AddPoints(lm_weights_, word_penalties_);
}

void WeightSearch::AddPoints(const std::vector<double>& lm_weights, const std::vector<double>& word_penalties) {
  for (const double penalty : word_penalties) {
    for (const double weight : lm_weights) grid_.push_back({weight, penalty, 0});
  }
}

std::vector<int64_t> WeightSearch::ErrorsOfPieces(std::span<const Lattice> pieces,
                                                  std::span<const int32_t> reference) const {
  std::vector<int64_t> errors;
  for (size_t i = round_begin_; i < grid_.size(); ++i) {
    errors.push_back(WordErrors(pieces, reference, grid_[i].weights()));
  }
  return errors;
}

void WeightSearch::Add(std::span<const int64_t> errors) {
  CHECK_EQ(errors.size(), grid_.size() - round_begin_);
  for (size_t i = 0; i < errors.size(); ++i) grid_[round_begin_ + i].errors += errors[i];
}

bool WeightSearch::Extend() {
  const Point best = Best();
  const bool more_weights = AtLowEnd(best.lm_weight, lm_weights_) || AtHighEnd(best.lm_weight, lm_weights_);
  const bool more_penalties = AtEndOfPenalties(best.word_penalty, word_penalties_);
  if ((!more_weights && !more_penalties) || ++rounds_ > kMostRounds) return false;
  round_begin_ = grid_.size();
  if (more_weights) {
    const std::vector<double> values = Beyond(best.lm_weight, lm_weights_, 0.0);
    AddPoints(values, word_penalties_);
    lm_weights_.insert(lm_weights_.end(), values.begin(), values.end());
    lm_weights_ = SortedOnce(std::move(lm_weights_));
  }
  if (more_penalties) {
    const std::vector<double> values =
        Beyond(best.word_penalty, word_penalties_, -std::numeric_limits<double>::infinity());
    AddPoints(lm_weights_, values);
    word_penalties_.insert(word_penalties_.end(), values.begin(), values.end());
    word_penalties_ = SortedOnce(std::move(word_penalties_));
  }
  return true;
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
  const Point& best = Best();
  if (AtLowEnd(best.lm_weight, lm_weights_) || AtHighEnd(best.lm_weight, lm_weights_)) {
    return fmt::format("the best language model weight, {}, is at the end of what was tried: set other lm-weights",
                       best.lm_weight);
  }
  if (AtEndOfPenalties(best.word_penalty, word_penalties_)) {
    return fmt::format("the best word penalty, {}, is at the end of what was tried: set other word-penalties",
                       best.word_penalty);
  }
  return "";
}

}  // namespace antiphon::decode
