// When a message arrives on a simulated cluster.
//
// Ranks stand in nodes of `ranks-per-node`, in their order. Inside a node they are joined by a PCIe star (a lane per
// rank and direction, and a host bridge that all share) or an NVLink ring (links to the two neighbours, the shorter way
// round); nodes by Ethernet (a card per node and direction, and possibly one segment that all share) or a fat tree
// (leaf switches with `leaf-nodes` nodes, whose uplinks together carry leaf-nodes / oversubscription cards).
//
// A message takes its links one behind the other like water a pipe: on each it waits for the first time, between the
// messages that were sent before it, in which it fits, then holds the link for bytes / bandwidth. Without other traffic
// it takes the sum of the latencies and bytes / the least bandwidth. Where `duplex` is less than 1, a message goes at
// that share of the speed while one that was sent before goes the other way over the same card or lane. Messages of one
// pair arrive in the order sent. Not modelled: fair sharing among messages under way, lost packets, congestion control.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/options.h"

namespace antiphon::comm {

struct InsideOptions {
  std::string topology = "pcie-star";
  double latency_us = 10;
  double bandwidth_mb_s = 6000;
  double duplex = 1;
  double bridge_mb_s = 0;
  template <class V>
  void Visit(V& v) {
    v("topology", topology, OneOf{{"pcie-star", "nvlink-ring", "shared-memory"}},
      "what joins the ranks of one node; shared-memory: they are threads of one process, a star without messages in "
      "sums");
    v("latency-us", latency_us, Range{0, 1e9}, "from rank to rank");
    v("bandwidth-mb-s", bandwidth_mb_s, Range{1e-6, 1e9}, "of a rank's lane or of one link, each way, 10^6 bytes/s");
    v("duplex", duplex, Range{0.5, 1}, "PCIe star: share of it that each way keeps while both carry");
    v("bridge-mb-s", bridge_mb_s, Range{0, 1e9}, "what all lanes of a PCIe star carry together; 0: no limit");
  }
};

struct BetweenOptions {
  std::string topology = "ethernet";
  double latency_us = 50;
  double bandwidth_mb_s = 1250;
  double duplex = 1;
  double shared_mb_s = 0;
  int leaf_nodes = 16;
  double oversubscription = 1;
  template <class V>
  void Visit(V& v) {
    v("topology", topology, OneOf{{"ethernet", "fat-tree"}}, "what joins the nodes");
    v("latency-us", latency_us, Range{0, 1e9}, "from node to node");
    v("bandwidth-mb-s", bandwidth_mb_s, Range{1e-6, 1e9}, "of a node's card, each way, 10^6 bytes/s");
    v("duplex", duplex, Range{0.5, 1}, "share of it that each way keeps while both carry");
    v("shared-mb-s", shared_mb_s, Range{0, 1e9}, "what an Ethernet carries in all; 0: a switch without such a limit");
    v("leaf-nodes", leaf_nodes, Range{1, 1e6}, "fat tree: nodes at one leaf switch");
    v("oversubscription", oversubscription, Range{1, 1e6}, "fat tree: bandwidth below a leaf switch over that above");
  }
};

struct LinkOptions {
  int ranks_per_node = 1;
  double message_us = 2;
  InsideOptions inside;
  BetweenOptions between;
  template <class V>
  void Visit(V& v) {
    v("ranks-per-node", ranks_per_node, Range{0, 1e6}, "0: all ranks in one node");
    v("message-us", message_us, Range{0, 1e9}, "time of the sender for each message");
    v.Group("inside", inside);
    v.Group("between", between);
  }
};

class LinkModel {
 public:
  /// Throws UsageError for what the options contradict.
  LinkModel(const LinkOptions& options, int world_size);

  /// Sends `bytes` at `seconds`; returns when the last of them arrives. Calls must come in the order of sending.
  double Deliver(int from, int to, double bytes, double seconds);
  /// The same on an idle network.
  double IdleSeconds(int from, int to, double bytes) const;
  double message_seconds() const { return 1e-6 * options_.message_us; }
  /// All ranks are threads of one process.
  bool shares_memory() const { return options_.inside.topology == "shared-memory" && num_nodes_ == 1; }
  int Node(int rank) const { return rank / ranks_per_node_; }
  int num_nodes() const { return num_nodes_; }

 private:
  struct Hop {
    size_t link;
    double latency_seconds;
    double seconds_per_byte;
    size_t opposite = 0;  // the same lane or card in the other direction
    double duplex = 1;
  };
  using Reservations = std::vector<std::pair<double, double>>;  // begin and end, ascending, apart
  /// The first moment from `from` on at which the link is free for `duration`; takes it.
  static double Reserve(Reservations& link, double now, double from, double duration);
  /// Time between begin and end in which the link is taken.
  static double Overlap(const Reservations& link, double begin, double end);
  void Route(int from, int to, std::vector<Hop>& hops) const;
  void RouteRing(int from, int to, std::vector<Hop>& hops) const;
  void RouteBetween(int from_node, int to_node, std::vector<Hop>& hops) const;

  LinkOptions options_;
  int world_size_;
  int ranks_per_node_;
  int num_nodes_;
  size_t first_bridge_, first_card_, first_leaf_, segment_;  // numbers of the links behind those of the ranks
  std::vector<Reservations> reserved_;
  std::unordered_map<int64_t, double> last_arrival_;  // of each pair that has sent
  std::vector<Hop> hops_;                             // kept to spare allocations
};

}  // namespace antiphon::comm
