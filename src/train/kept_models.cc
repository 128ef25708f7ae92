#include "train/kept_models.h"

#include <fmt/format.h>

#include <cmath>

#include "kernels/parallel.h"
#include "math/finite.h"
#include "train/divided_model.h"
#include "train/rendezvous.h"

namespace antiphon::train {

void KeptModels::RememberBest(const nn::Network& network) {
  if (!keeps_best_) return;
  if (best_) {
    best_->CopyFrom(network);
  } else {
    best_ = network.Clone();
  }
}

bool KeptModels::BestIsCurrent(const nn::Network& network, comm::Communicator& comm) const {
  if (!best_) return true;
  const double differs = best_->Hash() != network.Hash() ? 1 : 0;
  return comm.world_size() == 1 ? differs == 0 : SumOfAll(comm, {differs})[0] == 0;
}

void KeptModels::AverageStep(const nn::Network& network, double progress, Position& position) {
  if (options_.share <= 0 || position.step % options_.every_steps != 0) return;
  const std::span<const float> values = network.values();
  // One that is not finite gets the others' model soon, or all go back to a checkpoint.
  if (progress < 1 - options_.share || !AllFinite(values)) return;
  for (int k = 0; k <= options_.halvings; ++k) {
    if (progress < 1 - std::ldexp(options_.share, -k)) return;
    if (averages_.size() <= static_cast<size_t>(k)) {
      averages_.emplace_back(values.size(), 0.0f);
      position.averaged.push_back(0);
    }
    const auto weight = static_cast<float>(1.0 / static_cast<double>(++position.averaged[k]));
    float* mean = averages_[k].data();
    const float* now = values.data();
    const auto size = static_cast<int64_t>(values.size());
    ParallelRanges(size, 1, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) mean[i] += weight * (now[i] - mean[i]);
    });
  }
}

void KeptModels::ForgetAverages(Position& position) {
  averages_.clear();
  position.averaged.clear();
}

std::string KeptModels::AveragePrefix(size_t k) { return k == 0 ? "average." : fmt::format("average-{}.", k + 1); }

void KeptModels::Save(SafetensorsWriter& writer, const nn::Network& network, const Position& position) const {
  if (!position.best_is_current) SaveNetwork(writer, "best.", *best_);
  for (size_t k = 0; k < averages_.size(); ++k) SaveValues(writer, AveragePrefix(k), network, averages_[k]);
}

void KeptModels::Load(const SafetensorsReader& reader, const nn::Network& network, const Position& position) {
  averages_.assign(position.averaged.size(), std::vector<float>(network.num_values(), 0.0f));
  for (size_t k = 0; k < averages_.size(); ++k) {
    float* const mean = averages_[k].data();
    for (const nn::Parameter* p : network.parameters()) {
      reader.ReadInto(AveragePrefix(k) + p->name, MatrixView(mean + p->offset, p->value.rows(), p->value.cols()));
    }
  }
  best_.reset();
  if (!keeps_best_) return;
  best_ = network.Clone();
  if (!position.best_is_current) LoadNetwork(reader, "best.", *best_);
}

void KeptModels::LoadFolded(const std::vector<SafetensorsReader>& ranks, nn::Network& network,
                            const Position& position) {
  averages_.assign(position.averaged.size(), std::vector<float>(network.num_values(), 0.0f));
  for (size_t k = 0; k < averages_.size(); ++k) FoldValues(ranks, AveragePrefix(k), true, network, averages_[k]);
  if (!keeps_best_) return;
  best_ = network.Clone();
  if (!position.best_is_current) FoldNetwork(ranks, "best.", false, *best_);
}

}  // namespace antiphon::train
