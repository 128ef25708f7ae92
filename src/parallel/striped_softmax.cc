#include "parallel/striped_softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "kernels/parallel.h"
#include "kernels/softmax.h"

namespace antiphon::parallel {
namespace {

struct FrameStats {
  float max;         // of the rank's logits
  float sum;         // Σ exp(z − max)
  float target;      // the target's logit, −∞ if another rank holds it
  float at_largest;  // 1 if the target is the rank's largest logit
};

// `p` is the softmax of `z`, whose largest value is 1 / Σ exp(z − max).
FrameStats Stats(std::span<const float> z, std::span<const float> p, int64_t target) {
  const auto largest = static_cast<size_t>(std::max_element(z.begin(), z.end()) - z.begin());
  const float target_logit = target >= 0 ? z[static_cast<size_t>(target)] : -std::numeric_limits<float>::infinity();
  return {z[largest], 1.0f / p[largest], target_logit, static_cast<int64_t>(largest) == target ? 1.0f : 0.0f};
}

// Of all ranks together.
struct FrameSum {
  double log_sum;
  double target;
  bool correct;
};

FrameSum Combine(const std::vector<std::vector<float>>& all, size_t frame) {
  const auto at = [&](size_t rank) { return reinterpret_cast<const FrameStats*>(all[rank].data())[frame]; };
  FrameSum sum{0, -std::numeric_limits<double>::infinity(), false};
  float max = -std::numeric_limits<float>::infinity();
  for (size_t r = 0; r < all.size(); ++r) {
    const FrameStats stats = at(r);
    if (stats.max > max) sum.correct = stats.at_largest > 0;
    max = std::max(max, stats.max);
    sum.target = std::max(sum.target, static_cast<double>(stats.target));
  }
  double exponentials = 0;
  for (size_t r = 0; r < all.size(); ++r) {
    exponentials +=
        static_cast<double>(at(r).sum) * std::exp(static_cast<double>(at(r).max) - static_cast<double>(max));
  }
  sum.log_sum = static_cast<double>(max) + std::log(exponentials);
  return sum;
}

}  // namespace

nn::LossResult StripedSoftmaxCrossEntropy(RankGroup& group, ConstMatrixView logits, int64_t first_column,
                                          const nn::LossTargets& targets, MatrixView derivative) {
  nn::RequirePdfIds(targets, "a striped output layer");
  const auto frames = static_cast<size_t>(logits.rows());
  CHECK_EQ(targets.pdf_ids.size(), frames);
  // Column of the target, if this rank holds it, else −1.
  const auto column = [&](size_t n) {
    const int64_t at = targets.pdf_ids[n] - first_column;
    return at < logits.cols() ? std::max<int64_t>(at, -1) : -1;
  };
  Matrix kept;
  if (derivative.data() == logits.data()) {
    kept = Matrix(logits);
    logits = kept;
  }
  Softmax(false, logits, derivative);
  std::vector<FrameStats> mine(frames);
  ParallelItems(logits.rows(), logits.size(), [&](int64_t n) {
    mine[static_cast<size_t>(n)] = Stats(logits.Row(n), derivative.Row(n), column(static_cast<size_t>(n)));
  });
  const auto all = group.Exchange({reinterpret_cast<const float*>(mine.data()), 4 * frames});

  nn::LossResult result;
  const auto weight = [&](size_t n) {
    return targets.frame_weights.empty() ? 1.0 : static_cast<double>(targets.frame_weights[n]);
  };
  for (size_t n = 0; n < frames; ++n) result.weight_sum += weight(n);
  const double total = targets.total_weight.value_or(result.weight_sum);
  for (size_t n = 0; n < frames; ++n) {
    const FrameSum sum = Combine(all, n);
    if (weight(n) != 0) {
      result.loss_sum += weight(n) * (sum.log_sum - sum.target);
      if (sum.correct) result.correct_sum += weight(n);
    }
    const double scale = total > 0 ? weight(n) / total : 0.0;
    const double share = static_cast<double>(mine[n].sum) * std::exp(static_cast<double>(mine[n].max) - sum.log_sum);
    const std::span<float> dz = derivative.Row(static_cast<int64_t>(n));
    const auto factor = static_cast<float>(scale * share);
    for (float& v : dz) v *= factor;
    if (column(n) >= 0) dz[static_cast<size_t>(column(n))] -= static_cast<float>(scale);
  }
  return result;
}

}  // namespace antiphon::parallel
