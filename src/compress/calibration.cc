#include "compress/calibration.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace antiphon::compress {
namespace {

constexpr size_t kLevels = 128;

double Sum(const std::vector<double>& v, size_t first, size_t last) {
  return std::accumulate(v.begin() + static_cast<std::ptrdiff_t>(first), v.begin() + static_cast<std::ptrdiff_t>(last),
                         0.0);
}

// KL of the first `cut` bins, with what lies beyond put into the last, from the same in kLevels levels.
double Divergence(const std::vector<double>& bins, size_t cut) {
  std::vector<double> p(bins.begin(), bins.begin() + static_cast<std::ptrdiff_t>(cut));
  p.back() += Sum(bins, cut, bins.size());
  std::vector<double> q(cut, 0.0);
  for (size_t level = 0; level < kLevels; ++level) {
    const size_t first = level * cut / kLevels;
    const size_t last = (level + 1) * cut / kLevels;
    const auto used = std::count_if(bins.begin() + static_cast<std::ptrdiff_t>(first),
                                    bins.begin() + static_cast<std::ptrdiff_t>(last), [](double v) { return v > 0; });
    if (used == 0) continue;
    const double each = Sum(bins, first, last) / static_cast<double>(used);
    for (size_t i = first; i < last; ++i) q[i] = bins[i] > 0 ? each : 0.0;
  }
  const double p_sum = Sum(p, 0, cut);
  const double q_sum = Sum(q, 0, cut);
  if (p_sum == 0 || q_sum == 0) return std::numeric_limits<double>::infinity();
  double kl = 0;
  for (size_t i = 0; i < cut; ++i) {
    if (p[i] == 0) continue;
    kl += p[i] / p_sum * std::log(p[i] / p_sum / std::max(q[i] / q_sum, 1e-9));
  }
  return kl;
}

}  // namespace

void Histogram::Widen(float largest) {
  if (largest == 0) return;
  if (width_ == 0) width_ = static_cast<double>(largest) / (0.5 * kBins);
  while (static_cast<double>(largest) >= width_ * kBins) {
    for (std::vector<double>* side : {&below_, &above_}) {
      for (size_t i = 0; i < kBins / 2; ++i) (*side)[i] = (*side)[2 * i] + (*side)[2 * i + 1];
      std::fill(side->begin() + kBins / 2, side->end(), 0.0);
    }
    width_ *= 2;
  }
}

void Histogram::Add(ConstMatrixView values) {
  float largest = 0;
  for (int64_t r = 0; r < values.rows(); ++r) {
    for (const float v : values.Row(r)) {
      low_ = std::min(low_, v);
      high_ = std::max(high_, v);
      largest = std::max(largest, std::abs(v));
    }
  }
  Widen(largest);
  count_ += static_cast<double>(values.size());
  for (int64_t r = 0; r < values.rows(); ++r) {
    for (const float v : values.Row(r)) {
      const size_t bin = v == 0 ? 0 : static_cast<size_t>(std::abs(static_cast<double>(v)) / width_);
      ++(v < 0 ? below_ : above_)[std::min<size_t>(bin, kBins - 1)];
    }
  }
}

double Histogram::Quantile(const std::vector<double>& side, double largest, double percentile) const {
  double beyond = (1 - percentile) * count_;
  for (size_t i = kBins; i-- > 0;) {
    beyond -= side[i];
    if (beyond < 0) return std::min(largest, width_ * static_cast<double>(i + 1));
  }
  return 0;
}

double Histogram::BestCut(const std::vector<double>& side) const {
  // Zeros are exact whatever the range, and would hide the rest.
  std::vector<double> bins = side;
  bins[0] = 0;
  size_t used = kBins;
  while (used > kLevels && bins[used - 1] == 0) --used;
  size_t best = used;
  double least = std::numeric_limits<double>::infinity();
  for (size_t cut = kLevels; cut <= used; cut += 8) {
    const double kl = Divergence(bins, cut);
    if (kl >= least) continue;
    least = kl;
    best = cut;
  }
  return static_cast<double>(best) / static_cast<double>(used);
}

nn::InputRange Histogram::Range(const std::string& rule, double percentile) const {
  double low = static_cast<double>(low_);
  double high = static_cast<double>(high_);
  if (rule == "percentile") {
    low = -Quantile(below_, -low, percentile);
    high = Quantile(above_, high, percentile);
  } else if (rule == "kl") {
    std::vector<double> both = above_;
    for (size_t i = 0; i < kBins; ++i) both[i] += below_[i];
    const double most = BestCut(both) * std::max(-low, high);
    low = std::max(low, -most);
    high = std::min(high, most);
  }
  return nn::RangeFor(static_cast<float>(low), static_cast<float>(high));
}

}  // namespace antiphon::compress
