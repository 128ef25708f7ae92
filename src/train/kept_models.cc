#include "train/kept_models.h"

#include "kernels/parallel.h"
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
  if (options_.share <= 0 || progress < 1 - options_.share) return;
  if (position.step % options_.every_steps != 0) return;
  const std::span<const float> values = network.values();
  if (average_.empty()) average_.assign(values.size(), 0.0f);
  const auto weight = static_cast<float>(1.0 / static_cast<double>(++position.averaged));
  float* mean = average_.data();
  const float* now = values.data();
  const auto size = static_cast<int64_t>(values.size());
  ParallelRanges(size, 1, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) mean[i] += weight * (now[i] - mean[i]);
  });
}

void KeptModels::Save(SafetensorsWriter& writer, const nn::Network& network, const Position& position) const {
  if (!position.best_is_current) SaveNetwork(writer, "best.", *best_);
  if (!average_.empty()) SaveValues(writer, "average.", network, average_);
}

void KeptModels::Load(const SafetensorsReader& reader, const nn::Network& network, const Position& position) {
  average_.clear();
  if (position.averaged > 0) {
    average_.assign(network.num_values(), 0.0f);
    for (const nn::Parameter* p : network.parameters()) {
      reader.ReadInto("average." + p->name, MatrixView(average_.data() + p->offset, p->value.rows(), p->value.cols()));
    }
  }
  best_.reset();
  if (!keeps_best_) return;
  best_ = network.Clone();
  if (!position.best_is_current) LoadNetwork(reader, "best.", *best_);
}

void KeptModels::LoadFolded(const std::vector<SafetensorsReader>& ranks, nn::Network& network,
                            const Position& position) {
  average_.assign(position.averaged > 0 ? network.num_values() : 0, 0.0f);
  if (!average_.empty()) FoldValues(ranks, "average.", true, network, average_);
  if (!keeps_best_) return;
  best_ = network.Clone();
  if (!position.best_is_current) FoldNetwork(ranks, "best.", false, *best_);
}

}  // namespace antiphon::train
