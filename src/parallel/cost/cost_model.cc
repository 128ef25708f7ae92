#include "parallel/cost/cost_model.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/suggest.h"
#include "parallel/cost/balance.h"
#include "parallel/cost/schedules.h"

namespace antiphon::parallel {
namespace {

using PlayFunction = cost::Played (*)(const cost::Setting&);

// Methods that are one schedule; what they do with what they exchanged costs next to nothing.
const std::map<std::string, PlayFunction>& Methods() {
  static const std::map<std::string, PlayFunction> methods = {
      {"serial", cost::PlaySynchronous},
      {"ssgd", cost::PlaySynchronous},
      {"averaging", cost::PlayPeriodic},
      {"natural-gradient-averaging", cost::PlayPeriodic},
      {"bmuf", cost::PlayPeriodic},
      {"easgd", cost::PlayPeriodic},
      {"eamsgd", cost::PlayPeriodic},
      {"admm", cost::PlayPeriodic},
      {"asgd", cost::PlayAsynchronous},
      {"asgd-groups", cost::PlayAsynchronous},
      {"host-master", cost::PlayAsynchronous},
      {"easgd-async", cost::PlayAsynchronous},
      {"pipeline", cost::PlayPipeline},
      {"model-parallel", cost::PlayModelParallel},
      {"hessian-free", cost::PlayHessianFree},
  };
  return methods;
}

// The model as often as the method keeps it, and the activations of the minibatches that are under way.
double MemoryBytes(const CostNetwork& network, const CostPlan& plan) {
  double activations = network.in_dim;
  for (const CostLayer& layer : network.layers) activations += 2 * layer.out_dim;  // outputs and derivatives
  activations *= 4.0 * plan.minibatch;
  const double model = 4 * network.weights();
  if (plan.method == "model-parallel") return 2 * model / plan.group + activations;
  // Rows of the model as trained, as pulled, and of the servers' shares.
  if (plan.method == "asgd-groups") return 3 * model / plan.group + activations;
  // The gradient, its squares, products and steps in double precision, kept iterates left out.
  if (plan.method == "hessian-free") {
    return 14 * model + (plan.curvature_minibatches + plan.check_minibatches) * 4.0 * network.in_dim * plan.minibatch +
           activations;
  }
  if (plan.method == "pipeline") {
    const cost::PipelineSplit split = cost::SplitFor(network, plan);
    const auto stages = static_cast<double>(split.stage_layers.size());
    double fullest = 0;
    size_t layer = 0;
    for (size_t k = 0; k < split.stage_layers.size(); ++k) {
      double weights = 0;
      double outputs = 0;
      for (int i = 0; i < split.stage_layers[k]; ++i, ++layer) {
        weights += network.layers[layer].weights;
        outputs += network.layers[layer].out_dim;
      }
      const double share = k + 1 == split.stage_layers.size() ? 1.0 / split.stripes : 1.0;
      const double minibatches = 2 * (stages - static_cast<double>(k) - 1) + 2;
      fullest = std::max(fullest, share * (4 * weights + 4 * outputs * plan.minibatch * minibatches));
    }
    return fullest;
  }
  const double copies = plan.workers == 1 ? 1 : plan.method == "bmuf" || plan.method == "admm" ? 3 : 2;
  return copies * model + activations;
}

void Check(const CostNetwork& network, const CostPlan& plan, const comm::ClusterOptions& cluster, double memory) {
  if (network.layers.empty()) throw UsageError("a network needs sizes of input and output at least: \"440,1000\"");
  if (plan.workers < 1 || plan.minibatch < 1 || plan.sync_period < 1 || plan.accumulate < 1 || plan.servers < 0) {
    throw UsageError("workers, minibatch, sync-period and accumulate must be 1 at least, servers 0");
  }
  if (plan.method == "serial" && plan.workers != 1) {
    Throw<UsageError>("serial training is for one worker, but there are {}", plan.workers);
  }
  if ((plan.method == "model-parallel" || plan.method == "asgd-groups") &&
      (plan.group < 1 || plan.workers % plan.group != 0)) {
    Throw<UsageError>("{} workers cannot form groups of {}: take a multiple", plan.workers, plan.group);
  }
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

const std::vector<std::string>& CostPlan::CostMethods() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, play] : Methods()) all.push_back(name);
    return all;
  }();
  return names;
}

double SerialFramesPerSecond(const CostNetwork& network, int minibatch, const comm::ClusterOptions& cluster) {
  comm::HostOptions host = cluster.host;
  host.jitter = 0;
  host.straggler_ranks.clear();
  host.failing_ranks.clear();
  host.failing_seconds.clear();
  return minibatch / comm::HostModel(host, 1).ComputeSeconds(0, network.flops() * minibatch, minibatch);
}

CostResult SimulateCost(const CostNetwork& network, const CostPlan& plan, const comm::ClusterOptions& cluster) {
  const auto method = Methods().find(plan.method);
  if (method == Methods().end()) throw UsageError(UnknownNameMessage("method", plan.method, CostPlan::CostMethods()));
  Check(network, plan, cluster, 0);
  CostResult result;
  result.memory_bytes = MemoryBytes(network, plan);
  Check(network, plan, cluster, result.memory_bytes);
  cost::Played played = method->second({network, plan, cluster});
  const bool serves = method->second == cost::PlayAsynchronous && plan.method != "host-master";
  result.ranks = plan.workers + (serves ? plan.servers : 0);
  result.frames_per_second = played.frames / played.seconds;
  result.serial_frames_per_second = SerialFramesPerSecond(network, plan.minibatch, cluster);
  result.speedup = result.frames_per_second / result.serial_frames_per_second;
  result.compute_share = played.compute_seconds / played.device_seconds;
  result.bytes_per_frame = played.bytes / played.all_frames;
  result.staleness = played.staleness;
  result.split = std::move(played.split);
  return result;
}

}  // namespace antiphon::parallel
