// antiphon bench comm: latency and bandwidth between ranks, what the sums and broadcasts of training take, and what the
// simulator says they would take on a cluster of these constants; prints the constants as the table `cluster`.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "comm/process_group.h"
#include "comm/simulated_world.h"
#include "comm_measurement.h"
#include "command.h"
#include "parallel/codec.h"
#include "parallel/codec_speed.h"

namespace antiphon::app {
namespace {

struct BenchCommOptions {
  int workers = 2;
  double megabytes = 16;
  int repeats = 25;
  std::vector<std::string> codecs = {"fp32", "bf16", "one-bit", "top-k"};
  template <class V>
  void Visit(V& v) {
    v("workers", workers, Range{2, 4096}, "ranks, spread over the processes that mpirun or Slurm started");
    v("megabytes", megabytes, Range{1e-5, 4096}, "of the messages and sums, 10^6 bytes");
    v("repeats", repeats, Range{1, 1e6}, "of each measurement; the one below which a quarter lie counts");
    v("codecs", codecs, "whose speed is measured; empty: none");
  }
};

// Every rank measures at the same time, as ranks encode at the same time.
comm::CodecSpeeds MeasureCodecs(comm::Communicator& comm, const BenchCommOptions& options) {
  constexpr int64_t kRows = 1024;
  const int64_t columns = std::max<int64_t>(64, std::llround(1e6 * options.megabytes / sizeof(float)) / kRows);
  comm::CodecSpeeds speeds;
  for (const std::string& name : options.codecs) {
    comm.Barrier();
    const parallel::CodecMeasurement m = parallel::MeasureCodec(name, kRows, columns, options.repeats);
    speeds.ForEach([&](std::string_view known, comm::CodecSpeed& speed) {
      if (known == name) speed = m.speed;
    });
  }
  return speeds;
}

nlohmann::json CommToJson(const MeasuredLink& link, double megabytes) {
  return {{"latency_us", 1e6 * link.latency_seconds},
          {"one_way_mb_s", megabytes / link.message_seconds},
          {"both_ways_mb_s", megabytes / link.both_ways_seconds},
          {"sender_seconds", link.send_seconds}};
}

nlohmann::json CommToJson(const MeasuredComm& m, double megabytes) {
  nlohmann::json json = {{"between", CommToJson(m.between, megabytes)},
                         {"sum_seconds", m.sum_seconds},
                         {"two_stage_seconds", m.two_stage_seconds},
                         {"broadcast_seconds", m.broadcast_seconds}};
  if (m.inside.message_seconds > 0) json["inside"] = CommToJson(m.inside, megabytes);
  return json;
}

// Three digits: nobody measures more.
std::string Rounded(double value) { return fmt::format("{}", std::stod(fmt::format("{:.3g}", value))); }

// What was measured; the other keys keep their defaults.
std::string MeasuredTable(comm::ClusterOptions cluster, bool inside, bool between) {
  std::string toml =
      fmt::format("[cluster.host]\nsend-gb-s = {}\ncopy-gb-s = {}\nadd-gb-s = {}\n", Rounded(cluster.host.send_gb_s),
                  Rounded(cluster.host.copy_gb_s), Rounded(cluster.host.add_gb_s));
  cluster.host.codecs.ForEach([&](std::string_view name, const comm::CodecSpeed& speed) {
    if (speed.encode_gb_s == 0) return;
    toml += fmt::format("codecs.{} = {{ encode-gb-s = {}, decode-gb-s = {} }}\n", name, Rounded(speed.encode_gb_s),
                        Rounded(speed.decode_gb_s));
  });
  toml += fmt::format("[cluster.links]\nmessage-us = 0\nranks-per-node = {}\n", cluster.links.ranks_per_node);
  const auto add = [&](const char* name, const auto& link) {
    toml += fmt::format("{0}.latency-us = {1}\n{0}.bandwidth-mb-s = {2}\n{0}.duplex = {3}\n", name,
                        Rounded(link.latency_us), Rounded(link.bandwidth_mb_s), Rounded(link.duplex));
  };
  if (inside) {
    toml += fmt::format("inside.topology = \"{}\"\n", cluster.links.inside.topology);
    add("inside", cluster.links.inside);
  }
  if (between) add("between", cluster.links.between);
  return toml;
}

void PrintLink(const char* ranks, const MeasuredLink& link, double megabytes, CommandContext& context) {
  if (link.message_seconds == 0) return;
  context.Print("{}: latency {:.3g} µs, {:.4g} MB/s one way, {:.4g} MB/s each way while both send", ranks,
                1e6 * link.latency_seconds, megabytes / link.message_seconds, megabytes / link.both_ways_seconds);
}

void PrintSum(const char* name, double measured, double simulated, CommandContext& context) {
  context.Print("{}: {:.4g} ms, simulated {:.4g} ms ({:+.0f} %)", name, 1e3 * measured, 1e3 * simulated,
                100 * (simulated / measured - 1));
}

void BenchComm(const BenchCommOptions& options, CommandContext& context) {
  for (const std::string& codec : options.codecs)
    parallel::MakeCodec(Config::Parse(fmt::format("type = \"{}\"", codec), "--codecs"));
  const auto group = comm::ProcessGroup::Join(ANTIPHON_VERSION);
  const CommMeasurementOptions how{options.megabytes, options.repeats};
  MeasuredComm measured;
  MeasuredMemory memory;
  comm::CodecSpeeds codecs;
  group->RunRanks(options.workers, [&](comm::Communicator& comm) {
    const MeasuredComm mine = MeasureComm(comm, how);
    const MeasuredMemory its_memory = MeasureMemory(comm, how);
    const comm::CodecSpeeds its_codecs = MeasureCodecs(comm, options);
    if (comm.rank() != 0) return;
    measured = mine;
    memory = its_memory;
    codecs = its_codecs;
  });
  context.Silence(group->process() > 0);
  if (context.silent()) return;
  comm::ClusterOptions cluster = ClusterLike(measured, memory, options.megabytes);
  cluster.host.codecs = codecs;
  if (group->num_processes() == 1) cluster.links.inside.topology = "shared-memory";
  MeasuredComm simulated;
  comm::RunSimulated(options.workers, cluster, [&](comm::Communicator& comm) {
    const MeasuredComm mine = MeasureComm(comm, {options.megabytes, 1});
    if (comm.rank() == 0) simulated = mine;
  });
  context.Print("{} rank(s) on {}; messages of {:g} MB", options.workers, group->Describe(), options.megabytes);
  PrintLink("ranks of one machine", measured.inside, options.megabytes, context);
  PrintLink("first and last rank", measured.between, options.megabytes, context);
  PrintSum("sum (averaging)", measured.sum_seconds, simulated.sum_seconds, context);
  PrintSum("sum in two stages (gradients)", measured.two_stage_seconds, simulated.two_stage_seconds, context);
  PrintSum("broadcast", measured.broadcast_seconds, simulated.broadcast_seconds, context);
  const std::string toml =
      MeasuredTable(cluster, measured.ranks_per_node > 1, measured.ranks_per_node < options.workers);
  context.PrintLine(toml);
  context.SetResult(nlohmann::json{
      {"workers", options.workers},
      {"processes", group->num_processes()},
      {"measured", CommToJson(measured, options.megabytes)},
      {"simulated", CommToJson(simulated, options.megabytes)},
      {"cluster", toml}}.dump(2));
}

REGISTER_COMMAND(
    "bench comm", BenchCommOptions, BenchComm,
    {.summary = "latency, bandwidth, sums and broadcasts between ranks, beside the simulator's",
     .description = "Prints the table `cluster` that antiphon simulate, plan and train take: links (latency, one way, "
                    "both ways) and what each rank needs to send, copy, add, encode and decode. cluster.host.gflops is "
                    "left to antiphon bench train.",
     .example = "antiphon bench comm --workers 4\nmpirun -np 2 antiphon bench comm --megabytes 155"});

}  // namespace
}  // namespace antiphon::app
