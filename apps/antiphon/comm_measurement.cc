#include "comm_measurement.h"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

namespace antiphon::app {
namespace {

constexpr int kPingTag = 1;
constexpr int kBothTag = 2;
constexpr int kMemoryTag = 3;
constexpr double kFastestMbS = 1e6;  // what is handed over within one process takes no link at all
constexpr double kFastestGbS = 1e3;

// The value below which a quarter of them lie.
double Quarter(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto place = values.begin() + static_cast<int64_t>(values.size() / 4);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

struct Seconds {
  double whole = 0;
  double sending = 0;
};

// One way, on rank 0.
Seconds Ping(comm::Communicator& comm, int peer, size_t bytes, int repeats) {
  const std::vector<std::byte> message(bytes);
  std::vector<double> whole;
  std::vector<double> sending;
  comm.Barrier();
  for (int i = 0; i < repeats; ++i) {
    const double begin = comm.Now();
    if (comm.rank() == 0) {
      comm.Send(peer, kPingTag, message);
      sending.push_back(comm.Now() - begin);
      comm.Receive(peer, kPingTag);
      whole.push_back((comm.Now() - begin) / 2);
    } else if (comm.rank() == peer) {
      comm.Receive(0, kPingTag);
      comm.Send(0, kPingTag, message);
    }
  }
  return {Quarter(std::move(whole)), Quarter(std::move(sending))};
}

// Rank 0 and `peer` send to each other at once.
Seconds BothWays(comm::Communicator& comm, int peer, size_t bytes, int repeats) {
  const std::vector<std::byte> message(bytes);
  const int other = comm.rank() == 0 ? peer : 0;
  std::vector<double> whole;
  std::vector<double> sending;
  for (int i = 0; i < repeats; ++i) {
    comm.Barrier();
    if (comm.rank() != 0 && comm.rank() != peer) continue;
    const double begin = comm.Now();
    comm.Send(other, kBothTag, message);
    sending.push_back(comm.Now() - begin);
    comm.Receive(other, kBothTag);
    whole.push_back(comm.Now() - begin);
  }
  return {Quarter(std::move(whole)), Quarter(std::move(sending))};
}

MeasuredLink MeasureLink(comm::Communicator& comm, int peer, const CommMeasurementOptions& options) {
  const auto bytes = static_cast<size_t>(1e6 * options.megabytes);
  MeasuredLink link;
  link.latency_seconds = Ping(comm, peer, 1, options.repeats).whole;
  const Seconds one_way = Ping(comm, peer, bytes, options.repeats);
  link.message_seconds = one_way.whole;
  link.send_seconds = one_way.sending;
  const Seconds both = BothWays(comm, peer, bytes, options.repeats);
  link.both_ways_seconds = both.whole;
  link.both_send_seconds = both.sending;
  return link;
}

template <class Sum>
double SumSeconds(comm::Communicator& comm, const CommMeasurementOptions& options, const Sum& sum) {
  std::vector<float> values(static_cast<size_t>(1e6 * options.megabytes / sizeof(float)), 1.0f);
  std::vector<double> seconds;
  for (int i = 0; i < options.repeats; ++i) {
    comm.Barrier();
    const double begin = comm.Now();
    sum(std::span<float>(values));
    comm.Barrier();  // until the last rank has its sum
    seconds.push_back(comm.Now() - begin);
  }
  return Quarter(std::move(seconds));
}

}  // namespace

MeasuredComm MeasureComm(comm::Communicator& comm, const CommMeasurementOptions& options) {
  MeasuredComm m;
  while (m.ranks_per_node < comm.world_size() && comm.Node(m.ranks_per_node) == comm.Node(0)) ++m.ranks_per_node;
  if (m.ranks_per_node > 1 && m.ranks_per_node < comm.world_size()) m.inside = MeasureLink(comm, 1, options);
  m.between = MeasureLink(comm, comm.world_size() - 1, options);
  m.sum_seconds = SumSeconds(comm, options, [&](std::span<float> values) { comm.AllReduce(values); });
  m.two_stage_seconds = SumSeconds(comm, options, [&](std::span<float> values) {
    comm.ReduceScatter(values);
    comm.AllGatherParts(values);
  });
  m.broadcast_seconds =
      SumSeconds(comm, options, [&](std::span<float> values) { comm.Broadcast(0, std::as_writable_bytes(values)); });
  return m;
}

MeasuredMemory MeasureMemory(comm::Communicator& comm, const CommMeasurementOptions& options) {
  const auto size = static_cast<size_t>(1e6 * options.megabytes / sizeof(float));
  std::vector<float> sum(size, 1.0f);
  const std::vector<float> sent(size, 2.0f);
  const int next = (comm.rank() + 1) % comm.world_size();
  const int previous = (comm.rank() + comm.world_size() - 1) % comm.world_size();
  // Of a message as it comes: from another core's or machine's memory, and to be freed.
  const auto handling = [&](const auto& handle) {
    comm.Send(next, kMemoryTag, std::as_bytes(std::span(sent)));
    comm.Barrier();
    std::optional<comm::Message> message = comm.Receive(previous, kMemoryTag);
    comm.Barrier();
    const double begin = comm.Now();
    handle(reinterpret_cast<const float*>(message->bytes.data()));
    message.reset();
    return comm.Now() - begin;
  };
  std::vector<double> copying;
  std::vector<double> adding;
  for (int i = 0; i < options.repeats; ++i) {
    copying.push_back(handling([&](const float* received) { std::copy_n(received, size, sum.begin()); }));
    adding.push_back(handling([&](const float* received) {
      for (size_t k = 0; k < size; ++k) sum[k] += received[k];
    }));
  }
  const auto rate = [&](std::vector<double> seconds) {
    const double quarter = std::max(1e-12, Quarter(std::move(seconds)));
    return std::min(kFastestGbS, 1e-9 * static_cast<double>(size * sizeof(float)) / quarter);
  };
  return {rate(std::move(copying)), rate(std::move(adding))};
}

comm::ClusterOptions ClusterLike(const MeasuredComm& m, const MeasuredMemory& memory, double megabytes) {
  comm::ClusterOptions cluster;
  cluster.host.copy_gb_s = memory.copy_gb_s;
  cluster.host.add_gb_s = memory.add_gb_s;
  // All ranks send at once in most sums.
  cluster.host.send_gb_s = std::min(kFastestGbS, 1e-3 * megabytes / std::max(1e-12, m.between.both_send_seconds));
  cluster.links.message_us = 0;  // the latency has it
  cluster.links.ranks_per_node = m.ranks_per_node;
  const auto describe = [&](const MeasuredLink& link, auto& options) {
    const double fastest = megabytes / kFastestMbS;
    const double way = std::max(fastest, link.message_seconds - link.send_seconds - link.latency_seconds);
    const double both = link.both_ways_seconds - link.both_send_seconds - link.latency_seconds;
    options.latency_us = 1e6 * link.latency_seconds;
    options.bandwidth_mb_s = megabytes / way;
    options.duplex = way > fastest ? std::clamp(way / std::max(both, 1e-12), 0.5, 1.0) : 1.0;
  };
  describe(m.inside.message_seconds > 0 ? m.inside : m.between, cluster.links.inside);
  describe(m.between, cluster.links.between);
  return cluster;
}

}  // namespace antiphon::app
