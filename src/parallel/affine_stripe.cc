#include "parallel/affine_stripe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"

namespace antiphon::parallel {
namespace {

Config StripeConfig(nn::Network& whole, size_t layer, int part, int parts) {
  const std::string& type = whole.layer_type(layer);
  if (type != "affine" && type != "linear") {
    Throw<UsageError>("layer {} '{}' is '{}': only affine and linear layers can be striped over ranks", layer,
                      whole.layer_name(layer), type);
  }
  const int64_t out_dim = whole.layer(layer).out_dim();
  if (out_dim < parts) {
    Throw<UsageError>("layer '{}' has {} outputs: too few for stripes on {} ranks", whole.layer_name(layer), out_dim,
                      parts);
  }
  const int64_t rows = AffineStripe::FirstRow(out_dim, part + 1, parts) - AffineStripe::FirstRow(out_dim, part, parts);
  Config config = whole.layer(layer).ToConfig();
  config.Set("dim", fmt::format("{}", rows));
  return Config::Parse(fmt::format("[[layer]]\ntype = \"{}\"\n{}\n", type, config.ToToml()), "stripe");
}

// Rows [first, first + count) of a weight matrix, or columns of a bias.
std::span<float> Rows(const nn::Parameter& p, bool bias, std::span<float> values, int64_t first, int64_t count) {
  const int64_t width = bias ? 1 : p.value.cols();
  return values.subspan(static_cast<size_t>(p.offset + first * width), static_cast<size_t>(count * width));
}

struct FrameStats {
  float max;         // of the rank's logits
  float sum;         // Σ exp(z − max)
  float target;      // the target's logit, −∞ if another rank holds it
  float at_largest;  // 1 if the target is the rank's largest logit
};

FrameStats Stats(std::span<const float> z, int64_t target) {
  const auto largest = std::max_element(z.begin(), z.end());
  FrameStats stats{*largest, 0, -std::numeric_limits<float>::infinity(), 0};
  double sum = 0;
  for (const float v : z) sum += std::exp(static_cast<double>(v) - static_cast<double>(*largest));
  stats.sum = static_cast<float>(sum);
  if (target >= 0 && target < std::ssize(z)) {
    stats.target = z[static_cast<size_t>(target)];
    stats.at_largest = largest - z.begin() == target ? 1.0f : 0.0f;
  }
  return stats;
}

}  // namespace

AffineStripe::AffineStripe(nn::Network& whole, size_t layer, int part, int parts, const Config& optimizer)
    : layer_(layer),
      first_row_(FirstRow(whole.layer(layer).out_dim(), part, parts)),
      network_(StripeConfig(whole, layer, part, parts), whole.layer(layer).in_dim(), 0, 0,
               nn::InitialValues::kToBeSet) {
  const auto theirs = whole.layer(layer).parameters();
  const auto mine = network_.parameters();
  for (size_t i = 0; i < mine.size(); ++i) {
    const std::span<float> place = Rows(*theirs[i], i == 1, whole.values(), first_row_, rows());
    std::copy(place.begin(), place.end(), mine[i]->value.data());
    mine[i]->MoveTo(place.data(), mine[i]->offset);
    mine[i]->learning_rate_factor = theirs[i]->learning_rate_factor;
    mine[i]->decay_factor = theirs[i]->decay_factor;
    mine[i]->max_change = theirs[i]->max_change;
  }
  optimizer_ = optim::MakeOptimizer(optimizer, network_);
}

void ShareStripes(nn::Network& whole, size_t layer, RankGroup& group, std::span<float> values) {
  const int64_t out_dim = whole.layer(layer).out_dim();
  const auto parameters = whole.layer(layer).parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    for (int part = 0; part < group.size(); ++part) {
      const int64_t first = AffineStripe::FirstRow(out_dim, part, group.size());
      const int64_t end = AffineStripe::FirstRow(out_dim, part + 1, group.size());
      group.Broadcast(part, std::as_writable_bytes(Rows(*parameters[i], i == 1, values, first, end - first)));
    }
  }
}

nn::LossResult StripedSoftmaxCrossEntropy(RankGroup& group, ConstMatrixView logits, int64_t first_row,
                                          const nn::LossTargets& targets, MatrixView derivative) {
  nn::RequirePdfIds(targets, "a striped output layer");
  const auto frames = static_cast<size_t>(logits.rows());
  CHECK_EQ(targets.pdf_ids.size(), frames);
  std::vector<FrameStats> mine(frames);
#pragma omp parallel for schedule(static)
  for (int64_t n = 0; n < logits.rows(); ++n) {
    mine[static_cast<size_t>(n)] = Stats(logits.Row(n), targets.pdf_ids[static_cast<size_t>(n)] - first_row);
  }
  const auto all = group.Exchange({reinterpret_cast<const float*>(mine.data()), 4 * frames});
  const auto at = [&](size_t rank, size_t n) { return reinterpret_cast<const FrameStats*>(all[rank].data())[n]; };

  nn::LossResult result;
  for (size_t n = 0; n < frames; ++n) {
    result.weight_sum += targets.frame_weights.empty() ? 1.0 : static_cast<double>(targets.frame_weights[n]);
  }
  const double total = targets.total_weight.value_or(result.weight_sum);
  for (size_t n = 0; n < frames; ++n) {
    float max = -std::numeric_limits<float>::infinity();
    bool correct = false;
    double target = -std::numeric_limits<double>::infinity();
    for (size_t r = 0; r < all.size(); ++r) {
      const FrameStats stats = at(r, n);
      if (stats.max > max) correct = stats.at_largest > 0;
      max = std::max(max, stats.max);
      target = std::max(target, static_cast<double>(stats.target));
    }
    double sum = 0;
    for (size_t r = 0; r < all.size(); ++r) {
      sum += static_cast<double>(at(r, n).sum) * std::exp(static_cast<double>(at(r, n).max) - static_cast<double>(max));
    }
    const double log_sum = static_cast<double>(max) + std::log(sum);
    const double weight = targets.frame_weights.empty() ? 1.0 : static_cast<double>(targets.frame_weights[n]);
    if (weight != 0) {
      result.loss_sum += weight * (log_sum - target);
      if (correct) result.correct_sum += weight;
    }
    if (derivative.data() == nullptr) continue;
    const auto row = static_cast<int64_t>(n);
    const auto scale = static_cast<float>(total > 0 ? weight / total : 0.0);
    const float shift = static_cast<float>(log_sum);
    const std::span<const float> z = logits.Row(row);
    const std::span<float> dz = derivative.Row(row);
    for (size_t k = 0; k < z.size(); ++k) dz[k] = scale * std::exp(z[k] - shift);
    const int64_t mine_target = targets.pdf_ids[n] - first_row;
    if (mine_target >= 0 && mine_target < logits.cols()) dz[static_cast<size_t>(mine_target)] -= scale;
  }
  return result;
}

}  // namespace antiphon::parallel
