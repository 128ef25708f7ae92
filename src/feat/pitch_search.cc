#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "feat/pitch.h"

namespace antiphon::feat {
namespace {

constexpr int64_t kMeanReach = 75;

// How likely a correlation is to be voiced speech; fitted by the paper's authors on the Keele database.
double VoicingProbability(double correlation) {
  const double n = std::min(std::fabs(correlation), 1.0);
  const double log_ratio =
      -5.2 + 5.4 * std::exp(7.5 * (n - 1.0)) + 4.8 * n - 2.0 * std::exp(-10.0 * n) + 4.2 * std::exp(20.0 * (n - 1.0));
  return 1.0 / (1.0 + std::exp(-log_ratio));
}

// One step's search; the order of comparisons is Kaldi's, so that paths agree where local minima are nearly equal.
struct Search {
  const float* previous;
  const float* penalty;  // of a jump by so many states, −n + 1 … n − 1
  int n;
  float* cost;
  uint16_t* from;
  int* lower;  // bounds of the best predecessor
  int* upper;

  float Cost(int i, int j) const { return penalty[j - i] + previous[j]; }

  void FirstPass() {
    int start = 0;
    for (int i = 0; i < n; ++i) {
      float best = Cost(i, start);
      for (int j = start + 1; j < n; ++j) {
        const float candidate = Cost(i, j);
        if (!(candidate < best)) break;
        best = candidate;
        start = j;
      }
      cost[i] = best;
      from[i] = static_cast<uint16_t>(start);
      lower[i] = start;
    }
  }

  bool Downwards() {
    bool changed = false;
    int last = n - 1;
    for (int i = n - 1; i >= 0; --i) {
      const int low = lower[i], high = std::min(last, upper[i]), initial = from[i];
      last = high;
      if (high == low || initial == high) continue;
      float best = cost[i];
      int chosen = initial;
      for (int j = high; j > low + 1; --j) {
        const float candidate = Cost(i, j);
        if (candidate < best) {
          best = candidate;
          chosen = j;
        } else if (chosen > j) {
          break;
        }
      }
      changed |= Keep(i, chosen, best);
      upper[i] = last = chosen;
    }
    return changed;
  }

  bool Upwards() {
    bool changed = false;
    int last = 0;
    for (int i = 0; i < n; ++i) {
      const int low = std::max(last, lower[i]), high = upper[i], initial = from[i];
      last = low;
      if (high == low || initial == low) continue;
      float best = cost[i];
      int chosen = initial;
      for (int j = low; j < high - 1; ++j) {
        const float candidate = Cost(i, j);
        if (candidate < best) {
          best = candidate;
          chosen = j;
        } else if (chosen < j) {
          break;
        }
      }
      changed |= Keep(i, chosen, best);
      lower[i] = last = chosen;
    }
    return changed;
  }

 private:
  bool Keep(int i, int chosen, float best) {
    if (chosen == from[i]) return false;
    cost[i] = best;
    from[i] = static_cast<uint16_t>(chosen);
    return true;
  }
};

}  // namespace

// The best predecessor rises with the state. A first pass from below stops at the first local minimum, which bounds the
// true one from below; passes from above and below tighten the bounds until nothing changes.
void QuadraticTransition::Step(std::span<const float> previous, float factor, std::span<float> cost,
                               std::span<uint16_t> from) {
  const int n = static_cast<int>(previous.size());
  CHECK(n > 0 && n <= 65536) << n;
  if (std::cmp_not_equal(penalty_.size(), 2 * n - 1) || factor != factor_) {
    factor_ = factor;
    penalty_.clear();
    for (int jump = 1 - n; jump < n; ++jump) penalty_.push_back(static_cast<float>(jump * jump) * factor);
  }
  lower_.resize(previous.size());
  upper_.assign(previous.size(), n - 1);
  Search search{previous.data(), penalty_.data() + (n - 1), n, cost.data(), from.data(), lower_.data(), upper_.data()};
  search.FirstPass();
  for (int pass = 0; pass < n; ++pass) {
    if (!(pass % 2 == 0 ? search.Downwards() : search.Upwards())) break;
  }
}

Matrix PostProcessPitch(ConstMatrixView raw, int dim) {
  CHECK(dim == 1 || dim == 3) << dim;
  const int64_t num_frames = raw.rows();
  Matrix out(num_frames, dim);
  std::vector<double> log_pitch, voicing;
  for (int64_t t = 0; t < num_frames; ++t) {
    log_pitch.push_back(std::log(raw(t, 1)));
    voicing.push_back(VoicingProbability(raw(t, 0)));
  }
  const auto clamped = [&](int64_t t) {
    return log_pitch[static_cast<size_t>(std::clamp<int64_t>(t, 0, num_frames - 1))];
  };
  double weight = 0.0, sum = 0.0;
  const auto add = [&](int64_t t, double sign) {
    if (t < 0 || t >= num_frames) return;
    weight += sign * voicing[static_cast<size_t>(t)];
    sum += sign * voicing[static_cast<size_t>(t)] * log_pitch[static_cast<size_t>(t)];
  };
  for (int64_t t = 0; t < kMeanReach; ++t) add(t, 1.0);
  for (int64_t t = 0; t < num_frames; ++t) {
    add(t + kMeanReach, 1.0);
    add(t - kMeanReach - 1, -1.0);
    const auto normalised = static_cast<float>(2.0 * (log_pitch[static_cast<size_t>(t)] - sum / weight));
    if (dim == 1) {
      out(t, 0) = normalised;
      continue;
    }
    const double correlation = std::clamp<double>(raw(t, 0), -1.0, 1.0);
    const double delta = 0.1 * (clamped(t + 1) - clamped(t - 1)) + 0.2 * (clamped(t + 2) - clamped(t - 2));
    out(t, 0) = static_cast<float>(2.0 * (std::pow(1.0001 - correlation, 0.15) - 1.0));
    out(t, 1) = normalised;
    out(t, 2) = static_cast<float>(10.0 * delta);
  }
  return out;
}

}  // namespace antiphon::feat
