#include "train/memory_need.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "base/error.h"
#include "parallel/model_parts.h"

namespace antiphon::train {
namespace {

constexpr double kMegabyte = 1e6;

double Megabytes(size_t bytes) { return static_cast<double>(bytes) / kMegabyte; }

}  // namespace

std::string MemoryNeed::Describe() const {
  return fmt::format("{:.1f} MB (weights {:.1f}, optimiser {:.1f}, copies {:.1f}, activations {:.1f})",
                     Megabytes(total()), Megabytes(weights), Megabytes(optimizer), Megabytes(copies),
                     Megabytes(activations));
}

size_t WeightBytes(nn::Network& outline, const std::vector<nn::OutputRange>& held) {
  int64_t values = 0;
  for (size_t i = 0; i < outline.num_layers(); ++i) {
    nn::Layer& layer = outline.layer(i);
    const nn::OutputRange range = held.empty() ? nn::OutputRange{} : held[i];
    for (const auto all : {layer.parameters(), layer.buffers()}) {
      for (const nn::Parameter* p : all) values += parallel::ValuesOf(*p, layer.whole_out_dim(), range).count;
    }
  }
  return static_cast<size_t>(values) * sizeof(float);
}

size_t ActivationBytes(nn::Network& network, int64_t frames) {
  int64_t values = 0;
  int64_t widest = 0;
  for (size_t i = 0; i < network.num_layers(); ++i) {
    const nn::Layer& layer = network.layer(i);
    if (layer.out_dim() == 0) continue;
    if (values == 0) values += layer.in_dim();
    const bool absorbed = !network.begins_range(i);
    if (!absorbed) values += layer.out_dim();
    if (layer.out_dim() < layer.whole_out_dim()) values += layer.whole_out_dim();
    widest = std::max<int64_t>({widest, layer.in_dim(), layer.out_dim()});
  }
  return static_cast<size_t>(frames * (values + 3 * widest)) * sizeof(float);
}

bool RequireToFit(comm::Communicator& comm, const MemoryNeed& mine, double limit_mb) {
  std::vector<MemoryNeed> all = {mine};
  if (comm.world_size() > 1) {
    const std::vector<std::byte> bytes = comm.AllGather(std::as_bytes(std::span(&mine, 1)));
    all.resize(static_cast<size_t>(comm.world_size()));
    std::memcpy(all.data(), bytes.data(), bytes.size());
  }
  const auto less = [](const MemoryNeed& a, const MemoryNeed& b) { return a.total() < b.total(); };
  const auto most = std::max_element(all.begin(), all.end(), less);
  if (Megabytes(most->total()) <= limit_mb) {
    return std::all_of(all.begin(), all.end(),
                       [&](const MemoryNeed& n) { return Megabytes(n.total() + n.checkpoint) <= limit_mb; });
  }
  Throw<UsageError>(
      "parallel.device-memory-mb is {:g}, but worker {} of {} needs {}: divide the model over more ranks "
      "(parallel.method 'model-parallel' or 'pipeline', more workers or parallel.stripes), or its optimiser's state "
      "and "
      "gradients (parallel.divide of 'ssgd'), or take a smaller data.minibatch",
      limit_mb, most - all.begin(), all.size(), most->Describe());
}

}  // namespace antiphon::train
