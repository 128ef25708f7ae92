// What a GradientExchange keeps in checkpoints: what codecs hold back, and what waits for the next exchange.
#include <fmt/format.h>

#include <algorithm>

#include "parallel/gradient_exchange.h"

namespace antiphon::parallel {

void GradientExchange::SaveState(SafetensorsWriter& writer, const std::string& prefix) const {
  for (size_t k = 0; k < memory_.size(); ++k) {
    writer.Add(fmt::format("{}.memory{}", prefix, k), std::span<const float>(memory_[k]));
  }
  for (size_t k = 0; k < sum_memory_.size(); ++k) {
    writer.Add(fmt::format("{}.sum-memory{}", prefix, k), std::span<const float>(sum_memory_[k]));
  }
  const int64_t counts[] = {steps_, complete() ? 0 : minibatches_};
  writer.Add(prefix + ".counts", std::span<const int64_t>(counts));
  if (counts[1] > 0) {
    writer.Add(prefix + ".accumulated", std::span<const float>(gradient_));
    const double weights[] = {weight_, total_weight_};
    writer.Add(prefix + ".weight", std::span<const double>(weights));
  }
  codec_->SaveState(writer, prefix + ".codec");
}

void GradientExchange::LoadState(const SafetensorsReader& reader, const std::string& prefix) {
  for (size_t k = 0; k < memory_.size(); ++k) LoadValues(reader, fmt::format("{}.memory{}", prefix, k), memory_[k]);
  for (size_t k = 0; k < sum_memory_.size(); ++k) {
    LoadValues(reader, fmt::format("{}.sum-memory{}", prefix, k), sum_memory_[k]);
  }
  const std::vector<int64_t> counts = reader.ReadInts(prefix + ".counts");
  steps_ = counts.at(0);
  minibatches_ = static_cast<int>(counts.at(1));
  weight_ = 0;
  if (minibatches_ > 0) {
    LoadValues(reader, prefix + ".accumulated", gradient_);
    const std::vector<double> weights = reader.ReadDoubles(prefix + ".weight");
    weight_ = weights.at(0);
    total_weight_ = weights.at(1);  // before a loss there were more ranks
    for (auto& [parameter, touched] : touched_) touched = true;
  }
  codec_->LoadState(reader, prefix + ".codec");
}

void GradientExchange::LoadFolded(std::span<const SafetensorsReader> ranks, const std::string& prefix, int64_t steps) {
  ResetState();
  if (ranks.size() == 1 && !ranks[0].Has(prefix + ".counts")) {
    steps_ = steps;
    return;
  }
  const auto size = static_cast<double>(comm_.world_size());
  std::vector<float> theirs(network_.num_values());
  const auto add = [&](const SafetensorsReader& reader, const std::string& name, double share, std::span<float> sum) {
    if (!reader.Has(name)) return;
    LoadValues(reader, name, theirs);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<float>(share) * theirs[i];
  };
  std::fill(gradient_.begin(), gradient_.end(), 0.0f);
  for (const SafetensorsReader& reader : ranks) {
    for (size_t k = 0; k < memory_.size(); ++k)
      add(reader, fmt::format("{}.memory{}", prefix, k), 1 / size, memory_[k]);
    // What a sum held back is a gradient like those of the workers.
    if (!memory_.empty()) add(reader, prefix + ".sum-memory0", 1 / size, memory_[0]);
    if (!reader.Has(prefix + ".weight")) continue;
    const std::vector<double> weights = reader.ReadDoubles(prefix + ".weight");
    weight_ += weights.at(0) / size;
    add(reader, prefix + ".accumulated", weights.at(1) / total_weight_ / size, gradient_);
  }
  const std::vector<int64_t> counts = ranks[0].ReadInts(prefix + ".counts");
  steps_ = StepsAsFar(counts.at(0), ranks.size(), comm_.world_size());
  minibatches_ = static_cast<int>(counts.at(1));
  for (auto& [parameter, touched] : touched_) touched = minibatches_ > 0;
  codec_->LoadState(ranks[0], prefix + ".codec");
}

void GradientExchange::ResetState() {
  for (std::vector<float>& plane : memory_) std::fill(plane.begin(), plane.end(), 0.0f);
  for (std::vector<float>& plane : sum_memory_) std::fill(plane.begin(), plane.end(), 0.0f);
  minibatches_ = 0;
  weight_ = 0;
}

}  // namespace antiphon::parallel
