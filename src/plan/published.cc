#include "plan/published.h"

#include <fmt/format.h>

#include <functional>

#include "plan/cost_model.h"

namespace antiphon::plan {
namespace {

using comm::ClusterOptions;

constexpr double kFramesPerHour = 360000;
constexpr int kFitSteps = 60;

// The value in [low, high] at which `rises` reaches `target`.
double Fit(double low, double high, double target, const std::function<double(double)>& rises) {
  for (int i = 0; i < kFitSteps; ++i) {
    const double middle = 0.5 * (low + high);
    (rises(middle) < target ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

// GPUs of one host around 2012 on PCIe 2.0 × 16.
ClusterOptions OneHost(double gflops) {
  ClusterOptions cluster;
  cluster.host.gflops = gflops;
  cluster.links.ranks_per_node = 0;
  cluster.links.inside.bandwidth_mb_s = 5500;
  return cluster;
}
constexpr const char* kOneHostText = "PCIe 2.0 × 16: 5.5 GB/s per device and direction, latency 10 µs (assumed)";

const std::vector<int> kTable72Dims = {462, 2048, 2048, 2048, 2048, 2048, 10217};
const std::vector<int> kSwitchboardDims = {429, 2048, 2048, 2048, 2048, 2048, 2048, 2048, 9304};

PublishedTable Asynchronous() {
  constexpr double kEpochs = 10;
  constexpr double kMinutes = 195.1;
  const CostNetwork network(kTable72Dims);
  const double frames = 10 * kFramesPerHour * kEpochs;
  CostPlan plan;
  plan.method = "host-master";
  plan.minibatch = 256;
  const double gflops = 1e-9 * network.flops() * frames / (60 * kMinutes);
  ClusterOptions cluster = OneHost(gflops);
  cluster.host.memory_gb_s = 20;
  const double alone = frames / SerialFramesPerSecond(network, plan.minibatch, cluster) / 60;
  plan.workers = 4;
  PublishedTable table;
  table.title = "Asynchronous SGD, GPUs of one host, its memory as master";
  table.source = "Zhang et al. 2013; Table 7.2";
  table.unit = "minutes per 10 h of speech";
  table.constants = {"network 462–5×2048–10217", "minibatch 256, 10 passes over the data (assumed)",
                     "push and pull every 3 to 4 minibatches (published); copies not overlapped (assumed)",
                     kOneHostText, "the host adds at 20 GB/s of memory bandwidth (assumed)"};
  table.fitted = fmt::format("speed of a device {:.0f} GFLOP/s, on one GPU's time", gflops);
  table.rows = {{"SGD, 1 GPU", kMinutes, alone, true}};
  for (const int every : {3, 4}) {
    plan.accumulate = every;
    const CostResult four = SimulateCost(network, plan, cluster);
    const std::string what = fmt::format("ASGD, 4 GPUs, exchange every {} minibatches", every);
    table.rows.push_back({what, 61.1, frames / four.frames_per_second / 60, false});
    table.rows.push_back({what + ", speed-up", 3.2, four.speedup, false});
  }
  return table;
}

PublishedTable Pipeline() {
  const CostNetwork network(kSwitchboardDims);
  const ClusterOptions cluster = OneHost(700);
  PublishedTable table;
  table.title = "Pipelined back-propagation, GPUs of one host";
  table.source = "Chen, Eversole, Li, Yu, Seide 2012";
  table.unit = "speed-up";
  table.constants = {"network 429–7×2048–9304 (assumed)", "minibatch 512 (assumed)",
                     "device of 700 GFLOP/s (assumed; the ASGD table's fit says the same of its day)", kOneHostText,
                     "devices stand still while they copy (assumed)"};
  table.fitted = "nothing";
  for (const auto& [devices, published] : {std::pair(2, 1.9), std::pair(4, 3.3)}) {
    CostPlan plan;
    plan.method = "pipeline";
    plan.workers = devices;
    plan.minibatch = 512;
    plan.overlap = false;
    const CostResult r = SimulateCost(network, plan, cluster);
    PublishedRow row{fmt::format("{} GPUs", devices), published, r.speedup, false};
    for (const std::string& part : r.split) row.note += (row.note.empty() ? "" : "; ") + part;
    table.rows.push_back(std::move(row));
  }
  return table;
}

// 1-bit gradients between groups of devices that share each layer (1: none do). Against one device with the whole
// minibatch.
CostResult OneBitRun(const CostNetwork& network, int devices, int group, int minibatch, const ClusterOptions& cluster) {
  CostPlan plan;
  plan.method = group > 1 ? "model-parallel" : "ssgd";
  plan.workers = devices;
  plan.group = group;
  plan.minibatch = minibatch * group / devices;
  plan.codec = "one-bit";
  plan.codec_gb_s = 60;
  CostResult result = SimulateCost(network, plan, cluster);
  result.speedup = result.frames_per_second / SerialFramesPerSecond(network, minibatch, cluster);
  return result;
}

PublishedTable OneBit() {
  const CostNetwork small(kSwitchboardDims);
  const CostNetwork large({429, 4096, 4096, 4096, 4096, 4096, 4096, 4096, 4096, 9304});
  // 51,000 frames/s are 6.3 times what one GPU does.
  constexpr double kOneGpu = 51000 / 6.3;
  constexpr int kLargest = 16384;
  const auto cluster_of = [&](double half_speed_frames) {
    ClusterOptions cluster = OneHost(1e-9 * small.flops() * kOneGpu * (1 + half_speed_frames / kLargest));
    cluster.host.half_speed_frames = half_speed_frames;
    return cluster;
  };
  const double half_speed =
      Fit(0, 2000, -3.6, [&](double frames) { return -OneBitRun(small, 8, 1, 2880, cluster_of(frames)).speedup; });
  const ClusterOptions cluster = cluster_of(half_speed);
  ClusterOptions servers = cluster;
  servers.links.ranks_per_node = 2;
  servers.links.between.bandwidth_mb_s = 3000;
  servers.links.between.latency_us = 5;
  PublishedTable table;
  table.title = "1-bit SGD with error feedback";
  table.source = "Seide, Fu, Droppo, Li, Yu 2014";
  table.unit = "speed-up, frames/s";
  table.constants = {
      "46 M weights: network 429–7×2048–9304 (assumed)",
      fmt::format("one GPU at minibatch 16 k: {:.0f} frames/s (published: 51,000 over 6.3), that is {:.0f} GFLOP/s",
                  kOneGpu, 1e-9 * small.flops() * kOneGpu),
      "codec 60 GB/s of fp32 gradient (assumed)",
      kOneHostText,
      "160 M weights: 429–8×4096–9304 (assumed)",
      "20 servers: model parallel in each (published: combined with model parallelism), 1-bit between them",
      "between servers: InfiniBand, 3 GB/s, 5 µs (assumed)",
      "20 servers: minibatch chosen by the run itself, not published; 2048 to 16,384 shown",
      "10 × is against one GPU: 3300 h in 16 h are 20,600 frames/s, a tenth of which is what one GPU of these reaches "
      "on 160 M weights; against one device with the whole minibatch in all rows"};
  table.fitted =
      fmt::format("minibatch at which a device reaches half its speed: {:.0f} frames, on the first row", half_speed);
  const CostResult first = OneBitRun(small, 8, 1, 2880, cluster);
  const CostResult second = OneBitRun(small, 8, 1, kLargest, cluster);
  table.rows = {{"8 GPUs, minibatch 2880, speed-up", 3.6, first.speedup, true},
                {"8 GPUs, minibatch 2880, frames/s", 27000, first.frames_per_second, false},
                {"8 GPUs, minibatch 16 k, speed-up", 6.3, second.speedup, false},
                {"8 GPUs, minibatch 16 k, frames/s", 51000, second.frames_per_second, false}};
  for (const int minibatch : {2048, 4096, 8192, 16384}) {
    const CostResult r = OneBitRun(large, 40, 2, minibatch, servers);
    table.rows.push_back({fmt::format("20 servers of 2 GPUs, 160 M weights, minibatch {}, speed-up", minibatch), 10,
                          r.speedup, false,
                          fmt::format("{:.0f} frames/s; published: 20,600 at least", r.frames_per_second)});
  }
  return table;
}

// Of periodic exchanges of models between nodes of one GPU each.
double PeriodicSpeedup(const std::string& method, int workers, int sync_period, double mb_s, double jitter) {
  ClusterOptions cluster;
  cluster.host.gflops = 1500;
  cluster.host.jitter = jitter;
  cluster.links.between.latency_us = 5;
  cluster.links.between.bandwidth_mb_s = mb_s;
  CostPlan plan;
  plan.method = method;
  plan.workers = workers;
  plan.minibatch = 1024;
  plan.sync_period = sync_period;
  plan.exchange = "tree";
  return SimulateCost(CostNetwork(kSwitchboardDims), plan, cluster).speedup;
}

PublishedTable Averaging() {
  const double jitter = ClusterOptions().host.jitter;
  const auto speedup = [&](int workers, double mb_s) {
    return PeriodicSpeedup("averaging", workers, 10, mb_s, jitter);
  };
  const double mb_s = Fit(10, 100000, 9.3, [&](double bandwidth) { return speedup(16, bandwidth); });
  PublishedTable table;
  table.title = "Periodic model averaging, one GPU per node";
  table.source = "Su, Chen 2015";
  table.unit = "speed-up";
  table.constants = {"network 429–7×2048–9304 (assumed)", "device of 1500 GFLOP/s (assumed)",
                     "minibatch 1024, averaged every 10 (assumed: \"every few minibatches\")",
                     "all-reduce by a tree, latency 5 µs (assumed)"};
  table.fitted = fmt::format("bandwidth of a node's card: {:.0f} MB/s, on 16 workers", mb_s);
  table.rows = {{"16 workers", 9.3, speedup(16, mb_s), true}, {"32 workers", 17, speedup(32, mb_s), false}};
  return table;
}

PublishedTable Bmuf() {
  const auto speedup = [](int workers, double jitter) { return PeriodicSpeedup("bmuf", workers, 80, 3000, jitter); };
  const double jitter = Fit(0, 0.5, -13.75, [&](double value) { return -speedup(16, value); });
  PublishedTable table;
  table.title = "Blockwise model update filtering (BMUF), one GPU per node";
  table.source = "Chen, Huo 2016";
  table.unit = "speed-up";
  table.constants = {"network 429–7×2048–9304 (assumed)", "device of 1500 GFLOP/s (assumed)",
                     "blocks of 80 minibatches of 1024 (published: 40 k to 120 k frames)",
                     "InfiniBand, 3 GB/s, 5 µs (assumed), all-reduce by a tree"};
  table.fitted =
      fmt::format("jitter of a block's time: {:.3f} (standard deviation of its logarithm), on 16 workers", jitter);
  table.rows = {{"16 workers", 13.75, speedup(16, jitter), true},
                {"16 workers, all equally fast", 13.75, speedup(16, 0), false, "the prediction without the fit"},
                {"64 workers", 0, speedup(64, jitter), false, "published: near-linear"},
                {"64 workers, all equally fast", 0, speedup(64, 0), false, "published: near-linear"}};
  return table;
}

}  // namespace

std::vector<PublishedTable> SimulatePublished() { return {Asynchronous(), Pipeline(), OneBit(), Averaging(), Bmuf()}; }

}  // namespace antiphon::plan
