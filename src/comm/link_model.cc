#include "comm/link_model.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace antiphon::comm {
namespace {

// Times that differ by less are the same: sums of the same parts in another order.
constexpr double kSlackSeconds = 1e-12;

double SecondsPerByte(double mb_s) { return 1 / (1e6 * mb_s); }

size_t Index(int i) { return static_cast<size_t>(i); }

}  // namespace

LinkModel::LinkModel(const LinkOptions& options, int world_size)
    : options_(options),
      world_size_(world_size),
      ranks_per_node_(options.ranks_per_node == 0 ? world_size : options.ranks_per_node),
      num_nodes_((world_size + ranks_per_node_ - 1) / ranks_per_node_) {
  CHECK_GE(world_size, 1);
  if (options.inside.topology == "nvlink-ring" && options.inside.bridge_mb_s > 0) {
    throw UsageError("cluster.links.inside.bridge-mb-s belongs to a pcie-star; an nvlink-ring has no bridge");
  }
  if (options.between.topology == "fat-tree" && options.between.shared_mb_s > 0) {
    throw UsageError(
        "cluster.links.between.shared-mb-s belongs to an ethernet; limit a fat-tree by its oversubscription");
  }
  // Every rank has two links: up and down a star, or forwards and backwards in a ring.
  first_bridge_ = 2 * Index(world_size);
  first_card_ = first_bridge_ + Index(num_nodes_);
  first_leaf_ = first_card_ + 2 * Index(num_nodes_);
  const int leaves = (num_nodes_ + options.between.leaf_nodes - 1) / options.between.leaf_nodes;
  segment_ = first_leaf_ + 2 * Index(leaves);
  reserved_.resize(segment_ + 1);
}

void LinkModel::RouteRing(int from, int to, std::vector<Hop>& hops) const {
  const int node = Node(from);
  const int first = node * ranks_per_node_;
  const int size = std::min(ranks_per_node_, world_size_ - first);
  const int forwards = (to - from + size) % size;
  const bool ahead = 2 * forwards <= size;
  const int count = ahead ? forwards : size - forwards;
  int at = from - first;
  for (int i = 0; i < count; ++i) {
    hops.push_back({2 * Index(first + at) + (ahead ? 0 : 1), 1e-6 * options_.inside.latency_us,
                    SecondsPerByte(options_.inside.bandwidth_mb_s)});
    at = (at + (ahead ? 1 : size - 1)) % size;
  }
}

void LinkModel::RouteBetween(int from_node, int to_node, std::vector<Hop>& hops) const {
  const BetweenOptions& o = options_.between;
  const double card = SecondsPerByte(o.bandwidth_mb_s);
  // Of a node's two links, one in each direction, the other is next to it.
  const size_t out = first_card_ + 2 * Index(from_node);
  const size_t in = first_card_ + 2 * Index(to_node) + 1;
  hops.push_back({out, 1e-6 * o.latency_us, card, out + 1, o.duplex});
  if (o.topology == "ethernet" && o.shared_mb_s > 0) hops.push_back({segment_, 0, SecondsPerByte(o.shared_mb_s)});
  const int from_leaf = from_node / o.leaf_nodes;
  const int to_leaf = to_node / o.leaf_nodes;
  if (o.topology == "fat-tree" && from_leaf != to_leaf) {
    const double uplink = card * o.oversubscription / o.leaf_nodes;
    hops.push_back({first_leaf_ + 2 * Index(from_leaf), 0, uplink});
    hops.push_back({first_leaf_ + 2 * Index(to_leaf) + 1, 0, uplink});
  }
  hops.push_back({in, 0, card, in - 1, o.duplex});
}

void LinkModel::Route(int from, int to, std::vector<Hop>& hops) const {
  hops.clear();
  if (from == to) return;
  const int from_node = Node(from);
  const int to_node = Node(to);
  if (options_.inside.topology == "nvlink-ring") {
    if (from_node == to_node) return RouteRing(from, to, hops);
    return RouteBetween(from_node, to_node, hops);
  }
  // Half of the latency lies on each lane, so that rank to rank takes the whole.
  const double lane = SecondsPerByte(options_.inside.bandwidth_mb_s);
  const double latency = 0.5e-6 * options_.inside.latency_us;
  const bool in_star = ranks_per_node_ > 1;
  const auto bridge = [&](int node) {
    if (options_.inside.bridge_mb_s > 0) {
      hops.push_back({first_bridge_ + Index(node), 0, SecondsPerByte(options_.inside.bridge_mb_s)});
    }
  };
  if (in_star) {
    hops.push_back({2 * Index(from), latency, lane, 2 * Index(from) + 1, options_.inside.duplex});
    bridge(from_node);
  }
  if (from_node != to_node) {
    RouteBetween(from_node, to_node, hops);
    if (in_star) bridge(to_node);
  }
  if (in_star) hops.push_back({2 * Index(to) + 1, latency, lane, 2 * Index(to), options_.inside.duplex});
}

double LinkModel::Reserve(Reservations& link, double now, double from, double duration) {
  // Nobody sends into the past.
  link.erase(link.begin(), std::find_if(link.begin(), link.end(), [&](const auto& r) { return r.second > now; }));
  double begin = from;
  auto place = link.begin();
  for (; place != link.end() && begin + duration > place->first + kSlackSeconds; ++place)
    begin = std::max(begin, place->second);
  const double end = begin + duration;
  if (duration == 0) return begin;
  // What touches its neighbours becomes one with them, so that the list stays short.
  if (place != link.end() && place->first - end <= kSlackSeconds) {
    place->first = begin;
  } else {
    place = link.insert(place, {begin, end});
  }
  if (place != link.begin() && place->first - std::prev(place)->second <= kSlackSeconds) {
    std::prev(place)->second = place->second;
    link.erase(place);
  }
  return begin;
}

double LinkModel::Overlap(const Reservations& link, double begin, double end) {
  double sum = 0;
  for (const auto& [first, last] : link) sum += std::max(0.0, std::min(end, last) - std::max(begin, first));
  return sum;
}

double LinkModel::Deliver(int from, int to, double bytes, double seconds) {
  Route(from, to, hops_);
  double head = seconds;  // when the first byte reaches the hop
  double tail = seconds;  // when the last one has left the hop before
  for (const Hop& hop : hops_) {
    double duration = bytes * hop.seconds_per_byte;
    if (hop.duplex < 1) duration += (1 / hop.duplex - 1) * Overlap(reserved_[hop.opposite], head, head + duration);
    head = Reserve(reserved_[hop.link], seconds, head, duration);
    tail = std::max(tail, head + duration) + hop.latency_seconds;
    head += hop.latency_seconds;
  }
  double& last = last_arrival_[int64_t{from} * world_size_ + to];
  last = std::max(last, tail);
  return last;
}

double LinkModel::IdleSeconds(int from, int to, double bytes) const {
  std::vector<Hop> hops;
  Route(from, to, hops);
  double latency = 0;
  double slowest = 0;
  for (const Hop& hop : hops) {
    latency += hop.latency_seconds;
    slowest = std::max(slowest, hop.seconds_per_byte);
  }
  return latency + bytes * slowest;
}

}  // namespace antiphon::comm
