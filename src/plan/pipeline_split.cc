#include "plan/pipeline_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "base/error.h"

namespace antiphon::plan {
namespace {

std::vector<double> Costs(const CostNetwork& network) {
  std::vector<double> costs;
  for (const CostLayer& layer : network.layers) costs.push_back(layer.forward_flops + layer.backward_flops);
  return costs;
}

PipelineSplit GivenSplit(const CostNetwork& network, const CostPlan& plan) {
  PipelineSplit split{plan.stage_layers, std::max(1, plan.stripes)};
  const int layers = std::accumulate(split.stage_layers.begin(), split.stage_layers.end(), 0);
  if (layers != static_cast<int>(network.layers.size())) {
    Throw<UsageError>("stage-layers names {} layers, but the network has {}", layers, network.layers.size());
  }
  const int devices = static_cast<int>(split.stage_layers.size()) - 1 + split.stripes;
  if (devices != plan.workers) {
    Throw<UsageError>("{} stages with {} stripe(s) of the last need {} devices, but there are {} workers",
                      split.stage_layers.size(), split.stripes, devices, plan.workers);
  }
  if (split.stripes > 1 && split.stage_layers.back() != 1) {
    throw UsageError("stripes share the output layer, so that the last of stage-layers must be 1");
  }
  return split;
}

}  // namespace

std::vector<int> Balance(const std::vector<double>& costs, int stages) {
  const size_t n = costs.size();
  const auto k = static_cast<size_t>(stages);
  CHECK(k >= 1 && k <= n) << stages << " stages of " << n << " layers";
  std::vector<double> sums(n + 1, 0.0);
  std::partial_sum(costs.begin(), costs.end(), sums.begin() + 1);
  // best[s][i]: least possible largest part of the first i layers in s parts; cut[s][i]: where the last one begins.
  const double kNone = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(k + 1, std::vector<double>(n + 1, kNone));
  std::vector<std::vector<size_t>> cut(k + 1, std::vector<size_t>(n + 1, 0));
  best[0][0] = 0;
  for (size_t s = 1; s <= k; ++s) {
    for (size_t i = s; i <= n; ++i) {
      for (size_t j = s - 1; j < i; ++j) {
        const double largest = std::max(best[s - 1][j], sums[i] - sums[j]);
        if (largest < best[s][i]) {
          best[s][i] = largest;
          cut[s][i] = j;
        }
      }
    }
  }
  std::vector<int> sizes(k);
  size_t end = n;
  for (size_t s = k; s > 0; --s) {
    sizes[s - 1] = static_cast<int>(end - cut[s][end]);
    end = cut[s][end];
  }
  return sizes;
}

double LargestLoad(const CostNetwork& network, const PipelineSplit& split) {
  const std::vector<double> costs = Costs(network);
  double largest = 0;
  size_t layer = 0;
  for (size_t k = 0; k < split.stage_layers.size(); ++k) {
    double load = 0;
    for (int i = 0; i < split.stage_layers[k]; ++i) load += costs[layer++];
    if (k + 1 == split.stage_layers.size()) load /= split.stripes;
    largest = std::max(largest, load);
  }
  return largest;
}

PipelineSplit SplitFor(const CostNetwork& network, const CostPlan& plan) {
  if (!plan.stage_layers.empty()) return GivenSplit(network, plan);
  const auto layers = static_cast<int>(network.layers.size());
  std::vector<double> costs = Costs(network);
  PipelineSplit best;
  double least = std::numeric_limits<double>::infinity();
  const auto consider = [&](PipelineSplit split) {
    const double load = LargestLoad(network, split);
    if (load < least) {
      least = load;
      best = std::move(split);
    }
  };
  if (plan.stripes <= 1 && plan.workers <= layers) consider({Balance(costs, plan.workers), 1});
  costs.pop_back();
  const int first = plan.stripes > 1 ? plan.stripes : 2;
  const int last = plan.stripes > 0 ? plan.stripes : plan.workers;
  for (int stripes = first; stripes <= last; ++stripes) {
    const int stages = plan.workers - stripes;
    if (stages < (costs.empty() ? 0 : 1) || stages > layers - 1) continue;
    PipelineSplit split{costs.empty() ? std::vector<int>() : Balance(costs, stages), stripes};
    split.stage_layers.push_back(1);
    consider(std::move(split));
  }
  if (best.stage_layers.empty()) {
    Throw<UsageError>("a pipeline of {} devices{} cannot be made of {} layers: take fewer devices, or more stripes",
                      plan.workers, plan.stripes > 0 ? fmt::format(" with {} stripe(s)", plan.stripes) : "", layers);
  }
  return best;
}

std::vector<std::string> Describe(const PipelineSplit& split) {
  std::vector<std::string> lines;
  int first = 1;
  for (const int layers : split.stage_layers) {
    lines.push_back(layers == 1 ? fmt::format("layer {}", first)
                                : fmt::format("layers {}–{}", first, first + layers - 1));
    first += layers;
  }
  if (split.stripes > 1) lines.back() += fmt::format(" in {} stripes", split.stripes);
  return lines;
}

}  // namespace antiphon::plan
