// antiphon bench comm: latency and bandwidth between ranks, what the sums of training take, and what the simulator says
// they would take on links of that latency and bandwidth.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/toml_text.h"
#include "bench_network.h"
#include "comm/process_group.h"
#include "comm/simulated_world.h"
#include "command.h"

namespace antiphon::app {
namespace {

constexpr int kPingTag = 1;

struct BenchCommOptions {
  int workers = 2;
  double megabytes = 16;
  int repeats = 15;
  template <class V>
  void Visit(V& v) {
    v("workers", workers, Range{2, 4096}, "ranks, spread over the processes that mpirun or Slurm started");
    v("megabytes", megabytes, Range{1e-5, 4096}, "of the messages and sums, 10^6 bytes");
    v("repeats", repeats, Range{1, 1e6}, "of each measurement; the middle one counts");
  }
};

struct Link {
  double latency_seconds = 0;
  double bytes_per_second = 0;
};

struct Measured {
  Link inside;   // of ranks 0 and 1, if they share a process
  Link between;  // of the first and the last rank
  double tree_seconds = 0;
  double two_stage_seconds = 0;
};

double PingSeconds(comm::Communicator& comm, int peer, size_t bytes, int repeats) {
  const std::vector<std::byte> message(bytes);
  std::vector<double> seconds;
  comm.Barrier();
  for (int i = 0; i < repeats; ++i) {
    const double begin = comm.Now();
    if (comm.rank() == 0) {
      comm.Send(peer, kPingTag, message);
      comm.Receive(peer, kPingTag);
      seconds.push_back((comm.Now() - begin) / 2);
    } else if (comm.rank() == peer) {
      comm.Receive(0, kPingTag);
      comm.Send(0, kPingTag, message);
    }
  }
  return Median(std::move(seconds));
}

Link MeasureLink(comm::Communicator& comm, int peer, const BenchCommOptions& options) {
  const auto bytes = static_cast<size_t>(1e6 * options.megabytes);
  Link link;
  link.latency_seconds = PingSeconds(comm, peer, 1, options.repeats);
  const double seconds = PingSeconds(comm, peer, bytes, options.repeats);
  link.bytes_per_second = static_cast<double>(bytes) / std::max(1e-9, seconds - link.latency_seconds);
  return link;
}

template <class Sum>
double SumSeconds(comm::Communicator& comm, const BenchCommOptions& options, const Sum& sum) {
  std::vector<float> values(static_cast<size_t>(1e6 * options.megabytes / sizeof(float)), 1.0f);
  std::vector<double> seconds;
  for (int i = 0; i < options.repeats; ++i) {
    comm.Barrier();
    const double begin = comm.Now();
    sum(std::span<float>(values));
    comm.Barrier();  // until the last rank has its sum
    seconds.push_back(comm.Now() - begin);
  }
  return Median(std::move(seconds));
}

Measured Measure(comm::Communicator& comm, const BenchCommOptions& options, bool shares_process) {
  Measured m;
  if (shares_process) m.inside = MeasureLink(comm, 1, options);
  m.between = MeasureLink(comm, comm.world_size() - 1, options);
  m.tree_seconds = SumSeconds(comm, options, [&](std::span<float> values) { comm.AllReduce(values); });
  m.two_stage_seconds = SumSeconds(comm, options, [&](std::span<float> values) {
    comm.ReduceScatter(values);
    comm.AllGatherParts(values);
  });
  return m;
}

comm::ClusterOptions ClusterLike(const Measured& m, int workers, int processes) {
  comm::ClusterOptions cluster;
  cluster.links.message_us = 0;  // the latency has it
  cluster.links.ranks_per_node = (workers + processes - 1) / processes;
  const Link& inside = m.inside.bytes_per_second > 0 ? m.inside : m.between;
  cluster.links.inside.latency_us = 1e6 * inside.latency_seconds;
  cluster.links.inside.bandwidth_mb_s = 1e-6 * inside.bytes_per_second;
  cluster.links.between.latency_us = 1e6 * m.between.latency_seconds;
  cluster.links.between.bandwidth_mb_s = 1e-6 * m.between.bytes_per_second;
  return cluster;
}

nlohmann::json ToJson(const Measured& m) {
  return {{"latency_us", 1e6 * m.between.latency_seconds},
          {"bandwidth_mb_s", 1e-6 * m.between.bytes_per_second},
          {"inside_latency_us", 1e6 * m.inside.latency_seconds},
          {"inside_bandwidth_mb_s", 1e-6 * m.inside.bytes_per_second},
          {"tree_seconds", m.tree_seconds},
          {"two_stage_seconds", m.two_stage_seconds}};
}

void PrintSum(const char* name, double measured, double simulated, CommandContext& context) {
  context.Print("{}: {:.4g} ms, simulated {:.4g} ms ({:+.0f} %)", name, 1e3 * measured, 1e3 * simulated,
                100 * (simulated / measured - 1));
}

void BenchComm(const BenchCommOptions& options, CommandContext& context) {
  const auto group = comm::ProcessGroup::Join(ANTIPHON_VERSION);
  const bool shares_process = options.workers > group->num_processes();
  Measured measured;
  group->RunRanks(options.workers, [&](comm::Communicator& comm) {
    const Measured mine = Measure(comm, options, shares_process);
    if (comm.rank() == 0) measured = mine;
  });
  context.Silence(group->process() > 0);
  if (context.silent()) return;
  const comm::ClusterOptions cluster = ClusterLike(measured, options.workers, group->num_processes());
  Measured simulated;
  comm::RunSimulated(options.workers, cluster, [&](comm::Communicator& comm) {
    const Measured mine = Measure(comm, options, shares_process);
    if (comm.rank() == 0) simulated = mine;
  });
  context.Print("{} rank(s) on {}; messages of {:g} MB", options.workers, group->Describe(), options.megabytes);
  context.Print("first and last rank: latency {:.3g} µs, {:.4g} MB/s", 1e6 * measured.between.latency_seconds,
                1e-6 * measured.between.bytes_per_second);
  PrintSum("sum by a tree (averaging)", measured.tree_seconds, simulated.tree_seconds, context);
  PrintSum("sum in two stages (gradients)", measured.two_stage_seconds, simulated.two_stage_seconds, context);
  context.PrintLine(TomlAsTable("cluster", TomlAsTable("links", OptionsToConfig(cluster.links).ToToml())));
  context.SetResult(nlohmann::json{{"workers", options.workers},
                                   {"processes", group->num_processes()},
                                   {"measured", ToJson(measured)},
                                   {"simulated", ToJson(simulated)}}
                        .dump(2));
}

REGISTER_COMMAND(
    "bench comm", BenchCommOptions, BenchComm,
    {.summary = "latency, bandwidth and sums between ranks, beside the simulator's",
     .description = "Prints the table cluster.links for antiphon simulate and plan. The simulator does not "
                    "count the additions of a sum, so that it is best where links are slow.",
     .example = "antiphon bench comm --workers 4\nmpirun -np 2 antiphon bench comm --megabytes 155"});

}  // namespace
}  // namespace antiphon::app
