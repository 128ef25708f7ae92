#include "decode/search/contrast.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace antiphon::decode {
namespace {

bool IsEnabled(float score) { return score > kDisabledScore / 2; }

double MeanOfEnabled(std::span<const float> scores) {
  double sum = 0.0;
  int count = 0;
  for (const float score : scores) {
    sum += IsEnabled(score) ? score : 0.0F;
    count += IsEnabled(score) ? 1 : 0;
  }
  return count > 0 ? sum / count : 0.0;
}

}  // namespace

void Contrast::Clear() {
  next_ = count_ = 0;
  std::ranges::fill(sums_, 0.0);
  std::ranges::fill(squares_, 0.0);
}

void Contrast::Measure(int frame, std::span<const float> scores) {
  if (scores.empty() || frame < next_) return;
  next_ = frame + 1;
  const double mean = MeanOfEnabled(scores);
  if (!std::isfinite(mean)) return;
  ++count_;
  sums_.resize(scores.size());
  squares_.resize(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    const double x = IsEnabled(scores[i]) ? static_cast<double>(scores[i]) - mean : 0.0;
    sums_[i] += x;
    squares_[i] += x * x;
  }
}

double Contrast::Value() const {
  if (count_ < 2) return std::numeric_limits<double>::quiet_NaN();
  double variances = 0.0, squares = 0.0;
  for (size_t i = 0; i < sums_.size(); ++i) {
    const double mean = sums_[i] / count_;
    const double variance = std::max(0.0, squares_[i] / count_ - mean * mean);
    variances += variance;
    squares += variance * variance;
  }
  return variances > 0 ? std::sqrt(squares / variances) : 0.0;
}

}  // namespace antiphon::decode
