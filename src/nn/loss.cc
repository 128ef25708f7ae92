#include "nn/loss.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "kernels/shapes.h"
#include "kernels/softmax.h"

namespace antiphon::nn {
namespace {

// Weight of each frame in the averaged loss.
std::vector<float> Weights(const LossTargets& targets, int64_t n) {
  if (targets.frame_weights.empty()) return std::vector<float>(static_cast<size_t>(n), 1.0f);
  if (targets.frame_weights.size() != static_cast<size_t>(n)) {
    Throw<ShapeError>("{} frames have {} weights", n, targets.frame_weights.size());
  }
  return {targets.frame_weights.begin(), targets.frame_weights.end()};
}

// One frame of soft targets: t = (1 − s)·onehot + s·soft.
FrameLoss SoftFrame(std::span<const float> z, const LossTargets& targets, int64_t n, float scale, std::span<float> dz) {
  const double max = static_cast<double>(*std::max_element(z.begin(), z.end()));
  double sum = 0;
  for (const float v : z) sum += std::exp(static_cast<double>(v) - max);
  const double log_sum = max + std::log(sum);
  const bool hard = !targets.pdf_ids.empty();
  const double s = hard ? targets.soft_weight : 1.0;
  double loss = 0;
  double best_target = -1;
  size_t best = 0;
  size_t largest = 0;
  for (size_t k = 0; k < z.size(); ++k) {
    double t = s * static_cast<double>(targets.soft(n, static_cast<int64_t>(k)));
    if (hard && targets.pdf_ids[static_cast<size_t>(n)] == static_cast<int32_t>(k)) t += 1 - s;
    if (t > best_target) {
      best_target = t;
      best = k;
    }
    if (z[k] > z[largest]) largest = k;
    const double log_p = static_cast<double>(z[k]) - log_sum;
    if (t != 0) loss -= t * log_p;
    if (!dz.empty()) dz[k] = scale * static_cast<float>(std::exp(log_p) - t);
  }
  return {loss, best == largest};
}

void CheckTargets(ConstMatrixView logits, const LossTargets& targets) {
  const int64_t n = logits.rows();
  if (targets.soft.data() != nullptr) ExpectSameShape("soft targets", logits, targets.soft);
  const bool needs_ids = targets.soft.data() == nullptr;
  if ((needs_ids || !targets.pdf_ids.empty()) && targets.pdf_ids.size() != static_cast<size_t>(n)) {
    Throw<ShapeError>("{} frames have {} targets", n, targets.pdf_ids.size());
  }
  for (size_t i = 0; i < targets.pdf_ids.size(); ++i) {
    if (targets.pdf_ids[i] < 0 || targets.pdf_ids[i] >= logits.cols()) {
      Throw<InputError>("frame {}: target {} is outside 0 … {}: alignment and network do not belong together", i,
                        targets.pdf_ids[i], logits.cols() - 1);
    }
  }
}

}  // namespace

LossResult& LossResult::operator+=(const LossResult& other) {
  loss_sum += other.loss_sum;
  weight_sum += other.weight_sum;
  correct_sum += other.correct_sum;
  return *this;
}

LossResult SoftmaxCrossEntropy(ConstMatrixView logits, const LossTargets& targets, MatrixView derivative) {
  CheckTargets(logits, targets);
  const int64_t n = logits.rows();
  const std::vector<float> weights = Weights(targets, n);
  LossResult result;
  for (const float w : weights) result.weight_sum += static_cast<double>(w);
  const double total = targets.total_weight.value_or(result.weight_sum);
  std::vector<float> scales(weights);
  for (float& s : scales) s = total > 0 ? static_cast<float>(static_cast<double>(s) / total) : 0.0f;

  std::vector<FrameLoss> losses(static_cast<size_t>(n));
  if (targets.soft.data() == nullptr) {
    SoftmaxCrossEntropyRows(logits, targets.pdf_ids.data(), scales.data(), losses.data(), derivative);
  } else {
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < n; ++r) {
      losses[static_cast<size_t>(r)] = SoftFrame(logits.Row(r), targets, r, scales[static_cast<size_t>(r)],
                                                 derivative.data() == nullptr ? std::span<float>() : derivative.Row(r));
    }
  }
  for (size_t i = 0; i < losses.size(); ++i) {
    const auto w = static_cast<double>(weights[i]);
    if (w == 0) continue;
    result.loss_sum += w * losses[i].loss;
    if (losses[i].correct) result.correct_sum += w;
  }
  return result;
}

}  // namespace antiphon::nn
