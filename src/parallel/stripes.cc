#include "parallel/stripes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "nn/layer_traits.h"

namespace antiphon::parallel {
namespace {

bool CanBeDivided(const nn::Network& network, size_t layer, int parts) {
  return nn::TraitsOf(network, layer).divisible && network.layer(layer).whole_out_dim() >= parts;
}

// Vectors (biases, scales) are no products.
bool HasProducts(const nn::Network& network, size_t layer) {
  // Layer hands out its parameters for writing only; nothing is written here.
  auto& owner = const_cast<nn::Layer&>(network.layer(layer));
  return std::ranges::any_of(owner.parameters(),
                             [](const nn::Parameter* p) { return p->whole.rows > 1 && p->whole.cols > 1; });
}

void RequireDivisible(const nn::Network& network, size_t front, const Config& parallel, int stripes) {
  for (size_t i = front; i < network.num_layers(); ++i) {
    if (CanBeDivided(network, i, stripes)) return;
  }
  Throw<UsageError>(
      "{}: the network has no affine or linear layer with at least {} outputs{}, so that {} ranks that hold it "
      "together would all do the same work: take fewer, or another parallel.method",
      parallel.Where("stripes"), stripes, front > 0 ? " above those that are data-parallel" : "", stripes);
}

// An activation stays with the product that computes it, and what a splice copied is not gathered.
bool EndsFront(const nn::Network& network, size_t front) {
  return front < network.num_layers() && network.begins_range(front) && !nn::TraitsOf(network, front - 1).splices;
}

bool BeginsAProduct(const nn::Network& network, size_t layer) {
  return layer < network.num_layers() && HasProducts(network, layer);
}

size_t WithAllThatCannotBeDivided(const nn::Network& network, int stripes) {
  size_t front = 0;
  for (size_t i = 0; i < network.num_layers(); ++i) {
    if (HasProducts(network, i) && !CanBeDivided(network, i, stripes)) front = i + 1;
  }
  if (front == 0) return 0;
  while (front < network.num_layers() && !BeginsAProduct(network, front)) ++front;
  while (front < network.num_layers() && !EndsFront(network, front)) --front;
  return front;
}

}  // namespace

int StripesOf(const Config& parallel, int workers) {
  const auto asked = static_cast<int>(parallel.Int("stripes").value_or(0));
  const int stripes = asked == 0 ? workers : asked;
  if (stripes < 1 || workers % stripes != 0) {
    Throw<UsageError>("{}: {} workers cannot be divided into groups of {} ranks, of which each holds the model",
                      parallel.Where("stripes"), workers, stripes);
  }
  return stripes;
}

size_t FrontLayers(const nn::Network& network, int asked, int stripes) {
  if (asked < 0) return WithAllThatCannotBeDivided(network, stripes);
  const auto front = static_cast<size_t>(asked);
  if (front == 0 || EndsFront(network, front)) return front;
  std::vector<size_t> possible;
  for (size_t i = 1; i < network.num_layers(); ++i) {
    if (EndsFront(network, i)) possible.push_back(i);
  }
  Throw<UsageError>("{} of {} layers cannot be data-parallel: take one of {}", front, network.num_layers(),
                    fmt::join(possible, ", "));
}

std::unique_ptr<ModelParts> DivideByOutputs(const DivisionTask& task) {
  const Config& parallel = *task.parallel;
  const int stripes = StripesOf(parallel, task.comm->world_size());
  if (stripes == 1) return nullptr;
  constexpr const char* kFrontKey = "data-parallel-layers";
  const auto asked = static_cast<int>(parallel.Int(kFrontKey).value_or(0));
  const size_t front = WithContext([&] { return FrontLayers(*task.outline, asked, stripes); },
                                   [&] { return parallel.Where(kFrontKey) + ": parallel." + kFrontKey; });
  RequireDivisible(*task.outline, front, parallel, stripes);
  std::vector<std::vector<nn::OutputRange>> parts(static_cast<size_t>(stripes));
  for (int position = 0; position < stripes; ++position) {
    for (size_t i = 0; i < task.outline->num_layers(); ++i) {
      const bool divided = i >= front && CanBeDivided(*task.outline, i, stripes);
      parts[static_cast<size_t>(position)].push_back(
          divided ? EvenRange(task.outline->layer(i).whole_out_dim(), position, stripes) : nn::OutputRange{});
    }
  }
  return std::make_unique<ModelParts>(std::move(parts));
}

}  // namespace antiphon::parallel
