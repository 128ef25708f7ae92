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

struct Normaliser {
  double max = 0;
  double log_sum = 0;
};

// log Σ exp(z/T).
Normaliser LogSum(std::span<const float> z, double temperature) {
  Normaliser n{static_cast<double>(*std::max_element(z.begin(), z.end())) / temperature, 0};
  double sum = 0;
  for (const float v : z) sum += std::exp(static_cast<double>(v) / temperature - n.max);
  n.log_sum = n.max + std::log(sum);
  return n;
}

// One frame of soft targets, with a pdf-id or without (−1).
FrameLoss SoftFrame(std::span<const float> z, std::span<const float> soft, const LossTargets& targets, int32_t pdf_id,
                    float scale, std::span<float> dz) {
  const double t = targets.temperature;
  const double a = pdf_id < 0 ? 1.0 : targets.soft_weight;
  const double hot = LogSum(z, t).log_sum;
  const double cold = t == 1 ? hot : LogSum(z, 1).log_sum;
  double divergence = 0;
  size_t best = pdf_id < 0 ? 0 : static_cast<size_t>(pdf_id);
  size_t largest = 0;
  for (size_t k = 0; k < z.size(); ++k) {
    const auto p = static_cast<double>(soft[k]);
    const auto v = static_cast<double>(z[k]);
    if (pdf_id < 0 && soft[k] > soft[best]) best = k;
    if (z[k] > z[largest]) largest = k;
    const double log_q = v / t - hot;
    if (p > 0) divergence += p * (std::log(p) - log_q);
    if (std::isnan(z[k])) divergence = v;
    if (dz.empty()) continue;
    const double onehot = static_cast<size_t>(pdf_id) == k ? 1.0 : 0.0;
    const double hard = a < 1 ? (1 - a) * (std::exp(v - cold) - onehot) : 0.0;
    dz[k] = scale * static_cast<float>(a * t * (std::exp(log_q) - p) + hard);
  }
  double loss = a * t * t * divergence;
  if (a < 1) loss += (1 - a) * (cold - static_cast<double>(z[static_cast<size_t>(pdf_id)]));
  return {loss, best == largest};
}

void CheckTargets(ConstMatrixView logits, const LossTargets& targets) {
  const int64_t n = logits.rows();
  if (targets.soft.data() != nullptr) ExpectSameShape("soft targets", logits, targets.soft);
  if (targets.temperature <= 0 || targets.soft_weight < 0 || targets.soft_weight > 1) {
    Throw<UsageError>("soft targets need a temperature above 0 and a weight from 0 to 1, found {} and {}",
                      targets.temperature, targets.soft_weight);
  }
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

void RequirePdfIds(const LossTargets& targets, std::string_view who) {
  if (targets.soft.data() == nullptr && targets.heads == 1 && targets.sequence == nullptr) return;
  Throw<UsageError>(
      "{} takes one pdf-id per frame as target, neither a teacher's posteriors, nor several frames, nor lattices", who);
}

LossResult& LossResult::operator+=(const LossResult& other) {
  loss_sum += other.loss_sum;
  weight_sum += other.weight_sum;
  correct_sum += other.correct_sum;
  return *this;
}

namespace {

// Logits of several heads are those of as many frames one below the other.
LossResult OfHeads(ConstMatrixView logits, const LossTargets& targets, MatrixView derivative) {
  const int64_t heads = targets.heads;
  if (logits.cols() % heads != 0) {
    Throw<ShapeError>("{} outputs cannot be divided into {} heads", logits.cols(), heads);
  }
  CHECK(logits.contiguous() && derivative.contiguous() && targets.soft.contiguous());
  const auto split = [&](auto view) { return decltype(view)(view.data(), view.rows() * heads, view.cols() / heads); };
  std::vector<float> weights;
  double total = 0;
  for (const float w : Weights(targets, logits.rows())) {
    weights.insert(weights.end(), static_cast<size_t>(heads), w);
    total += static_cast<double>(w);
  }
  LossTargets each = targets;
  each.heads = 1;
  each.soft = split(targets.soft);
  each.frame_weights = weights;
  each.total_weight = targets.total_weight.value_or(total);
  return SoftmaxCrossEntropy(split(logits), each, split(derivative));
}

}  // namespace

LossResult SoftmaxCrossEntropy(ConstMatrixView logits, const LossTargets& targets, MatrixView derivative) {
  if (targets.sequence != nullptr) return targets.sequence->Compute(logits, targets, derivative);
  if (targets.heads > 1) return OfHeads(logits, targets, derivative);
  CheckTargets(logits, targets);
  const int64_t n = logits.rows();
  const std::vector<float> weights = Weights(targets, n);
  LossResult result;
  for (const float w : weights) result.weight_sum += static_cast<double>(w);
  const double total = targets.total_weight.value_or(result.weight_sum);
  std::vector<float> scales(weights);
  for (float& s : scales) s = total > 0 ? static_cast<float>(static_cast<double>(s) / total) : 0.0f;

  std::vector<FrameLoss> losses(static_cast<size_t>(n));
  const bool hard = !targets.pdf_ids.empty() && targets.soft_weight == 0;
  if (targets.soft.data() == nullptr || hard) {
    SoftmaxCrossEntropyRows(logits, targets.pdf_ids.data(), scales.data(), losses.data(), derivative);
  } else {
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < n; ++r) {
      const auto i = static_cast<size_t>(r);
      losses[i] =
          SoftFrame(logits.Row(r), targets.soft.Row(r), targets, targets.pdf_ids.empty() ? -1 : targets.pdf_ids[i],
                    scales[i], derivative.data() == nullptr ? std::span<float>() : derivative.Row(r));
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
