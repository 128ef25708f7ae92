#include "nn/loss.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "kernels/elementwise.h"
#include "kernels/parallel.h"
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

// log softmax of z/T, a scratch of the caller's thread that is reused.
ConstMatrixView LogSoftmax(ConstMatrixView z, double temperature, Matrix& scratch) {
  if (scratch.rows() != z.rows() || scratch.cols() != z.cols()) scratch.Resize(z.rows(), z.cols());
  Scale(static_cast<float>(1 / temperature), z, scratch);
  Softmax(true, scratch, scratch);
  return scratch;
}

// One frame of soft targets, with a pdf-id or without (−1). dz may be z's own memory; log_hot and log_cold are
// log softmax(z/T) and log softmax(z), the latter empty if it is the same.
FrameLoss SoftFrame(std::span<const float> z, std::span<const float> log_hot, std::span<const float> log_cold,
                    std::span<const float> soft, const LossTargets& targets, int32_t pdf_id, float scale,
                    std::span<float> dz) {
  const double t = targets.temperature;
  const double a = pdf_id < 0 ? 1.0 : targets.soft_weight;
  const auto largest = static_cast<size_t>(std::max_element(z.begin(), z.end()) - z.begin());
  const size_t best = pdf_id >= 0 ? static_cast<size_t>(pdf_id)
                                  : static_cast<size_t>(std::max_element(soft.begin(), soft.end()) - soft.begin());
  double divergence = 0;
  for (size_t k = 0; k < soft.size(); ++k) {
    if (soft[k] > 0) {
      divergence += static_cast<double>(soft[k]) * static_cast<double>(std::log(soft[k]) - log_hot[k]);
    }
    if (std::isnan(z[k])) divergence = static_cast<double>(z[k]);
  }
  double loss = a * t * t * divergence;
  if (a < 1) loss -= (1 - a) * static_cast<double>(log_cold[best]);
  if (dz.empty()) return {loss, best == largest};
  const auto soft_scale = scale * static_cast<float>(a * t);
  const auto hard_scale = scale * static_cast<float>(1 - a);
  for (size_t k = 0; k < soft.size(); ++k) dz[k] = soft_scale * (std::exp(log_hot[k]) - soft[k]);
  if (a == 1) return {loss, best == largest};
  for (size_t k = 0; k < soft.size(); ++k) dz[k] += hard_scale * std::exp(log_cold[k]);
  dz[best] -= hard_scale;
  return {loss, best == largest};
}

void SoftRows(ConstMatrixView logits, const LossTargets& targets, std::span<const float> scales,
              std::span<FrameLoss> losses, MatrixView derivative) {
  thread_local Matrix hot_scratch, cold_scratch;
  const ConstMatrixView hot = LogSoftmax(logits, targets.temperature, hot_scratch);
  const bool two = targets.temperature != 1 && !targets.pdf_ids.empty() && targets.soft_weight < 1;
  const ConstMatrixView cold = two ? LogSoftmax(logits, 1, cold_scratch) : hot;
  ParallelItems(logits.rows(), logits.size(), [&](int64_t r) {
    const auto i = static_cast<size_t>(r);
    losses[i] = SoftFrame(logits.Row(r), hot.Row(r), cold.Row(r), targets.soft.Row(r), targets,
                          targets.pdf_ids.empty() ? -1 : targets.pdf_ids[i], scales[i],
                          derivative.data() == nullptr ? std::span<float>() : derivative.Row(r));
  });
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

namespace {

// A sequence criterion, held near to a distribution per frame.
LossResult HeldCriterion(ConstMatrixView logits, const LossTargets& targets, MatrixView derivative) {
  thread_local Matrix near_derivative;  // the criterion's may be the logits' own memory
  LossTargets near = targets;
  near.sequence = nullptr;
  near.pdf_ids = {};
  if (!derivative.empty()) near_derivative.Resize(logits.rows(), logits.cols());
  const LossResult held =
      SoftmaxCrossEntropy(logits, near, derivative.empty() ? MatrixView() : MatrixView(near_derivative));
  LossResult result = targets.sequence->Compute(logits, targets, derivative);
  const double a = targets.soft_weight;
  if (!derivative.empty()) {
    Scale(static_cast<float>(1 - a), derivative, derivative);
    AddScaled(static_cast<float>(a), near_derivative, derivative);
  }
  // Per frame, as both are reported.
  result.loss_sum = (1 - a) * result.loss_sum + a * held.loss() * result.weight_sum;
  return result;
}

}  // namespace

LossResult SoftmaxCrossEntropy(ConstMatrixView logits, const LossTargets& targets, MatrixView derivative) {
  if (targets.sequence != nullptr) {
    const bool held = targets.soft.data() != nullptr && targets.soft_weight > 0;
    return held ? HeldCriterion(logits, targets, derivative) : targets.sequence->Compute(logits, targets, derivative);
  }
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
    SoftRows(logits, targets, scales, losses, derivative);
  }
  for (size_t i = 0; i < losses.size(); ++i) {
    const auto w = static_cast<double>(weights[i]);
    if (w == 0) continue;
    result.loss_sum += w * losses[i].loss;
    if (losses[i].correct) result.correct_sum += w;
  }
  return result;
}

ExecContext WithLoss(const ExecContext& context, const LossTargets& targets, const LossResult& loss) {
  ExecContext with = context;
  const double weight = loss.weight_sum / targets.heads;
  with.loss_weight = targets.total_weight.value_or(weight);
  with.loss_share = targets.total_weight.value_or(0) > 0 ? weight / *targets.total_weight : 1;
  return with;
}

}  // namespace antiphon::nn
