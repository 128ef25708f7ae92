#include "plan/cost_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "plan/cost_method.h"

namespace antiphon::plan {
namespace {

void Check(const CostNetwork& network, const CostPlan& plan, const comm::ClusterOptions& cluster, double memory) {
  if (network.layers.empty()) throw UsageError("a network needs sizes of input and output at least: \"440,1000\"");
  if (plan.workers < 1 || plan.minibatch < 1 || plan.sync_period < 1 || plan.accumulate < 1 || plan.servers < 0) {
    throw UsageError("workers, minibatch, sync-period and accumulate must be 1 at least, servers 0");
  }
  MethodOf(plan).Check(plan);
  if (cluster.host.memory_gb > 0 && memory > 1e9 * cluster.host.memory_gb) {
    Throw<UsageError>(
        "a device would need {:.3g} GB for model and activations, but has {:.3g} GB: spread the model "
        "(model-parallel, pipeline) or take a smaller minibatch",
        1e-9 * memory, cluster.host.memory_gb);
  }
}

}  // namespace

CostNetwork::CostNetwork(const std::vector<int>& dims) {
  if (dims.empty()) return;
  in_dim = dims[0];
  for (size_t i = 1; i < dims.size(); ++i) {
    const double weights = static_cast<double>(dims[i - 1]) * dims[i];
    layers.push_back({weights, static_cast<double>(dims[i]), 2 * weights, i == 1 ? 2 * weights : 4 * weights});
  }
}

double CostNetwork::weights() const {
  return std::accumulate(layers.begin(), layers.end(), 0.0, [](double s, const CostLayer& l) { return s + l.weights; });
}

double CostNetwork::flops() const {
  return std::accumulate(layers.begin(), layers.end(), 0.0,
                         [](double s, const CostLayer& l) { return s + l.forward_flops + l.backward_flops; });
}

double BitsPerValue(const CostPlan& plan) {
  if (plan.bits_per_value > 0) return plan.bits_per_value;
  // int8: a scale per 256 values; one-bit: two values per column, here of 2048 rows; sparse: 1 % of the values, each
  // with its position.
  static const std::map<std::string, double> bits = {{"", 32},        {"fp32", 32},       {"bf16", 16},
                                                     {"fp16", 16},    {"int8", 8.125},    {"one-bit", 1.03125},
                                                     {"top-k", 0.64}, {"threshold", 0.64}};
  return bits.at(plan.codec);
}

std::vector<std::string> CostPlan::CostMethods() { return CostMethodRegistry::Get().Names(); }

double SerialFramesPerSecond(const CostNetwork& network, int minibatch, const comm::ClusterOptions& cluster) {
  comm::HostOptions host = cluster.host;
  host.jitter = 0;
  host.straggler_ranks.clear();
  host.failing_ranks.clear();
  host.failing_seconds.clear();
  return minibatch / comm::HostModel(host, 1).ComputeSeconds(0, network.flops() * minibatch, minibatch);
}

CostResult SimulateCost(const CostNetwork& network, const CostPlan& plan, const comm::ClusterOptions& cluster) {
  const CostMethod& method = MethodOf(plan);
  Check(network, plan, cluster, 0);
  CostResult result;
  result.memory_bytes = method.MemoryBytes(network, plan);
  Check(network, plan, cluster, result.memory_bytes);
  Played played = method.Play({network, plan, cluster});
  result.ranks = method.Ranks(plan);
  result.frames_per_second = played.frames / played.seconds;
  result.serial_frames_per_second = SerialFramesPerSecond(network, plan.minibatch, cluster);
  result.speedup = result.frames_per_second / result.serial_frames_per_second;
  result.compute_share = played.compute_seconds / played.device_seconds;
  result.bytes_per_frame = played.bytes / played.all_frames;
  result.staleness = played.staleness;
  result.split = std::move(played.split);
  return result;
}

}  // namespace antiphon::plan
