// What the ranks of a simulated world share: clocks, mailboxes, windows, and whose turn it is.
//
// Internal to the simulated world. Units: seconds of virtual time. Threads: everything under one lock, as ranks take
// turns anyhow.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "comm/shared_sum.h"
#include "comm/simulated_world.h"

namespace antiphon::comm {

constexpr double kNever = std::numeric_limits<double>::infinity();

// A message on its way.
struct SimulatedMessage {
  int source;
  int tag;
  double arrival;
  std::vector<std::byte> bytes;
};

// An accumulation on its way.
struct SimulatedAccumulation {
  double seconds;
  int64_t number;  // in the order of issue
  int target;
  int window;
  size_t offset;
  float scale;
  std::vector<float> values;
  bool operator<(const SimulatedAccumulation& other) const {  // for a queue whose top is the earliest
    return std::pair(seconds, number) > std::pair(other.seconds, other.number);
  }
};

struct SimulatedRank {
  double clock = 0;
  double wake = kNever;  // when it can go on; while it has not the turn
  bool connected = false;
  bool has_turn = true;  // from the start until its first operation
  bool ended = false;
  bool lost = false;
  bool tolerates_losses = false;
  std::vector<int> accepted;  // losses with which it has dealt
  // What Receive waits for.
  bool receiving = false;
  int source = 0;
  int tag = 0;
  std::deque<SimulatedMessage> mailbox;  // in the order of arrival
  double accumulated_until = 0;          // when its accumulations have taken effect
  double memory_busy_until = 0;          // with others' accumulations
  int idle_polls = 0;
  RankUsage usage;
  std::condition_variable turn;

  /// With a rank's loss.
  bool HasDealtWith(int rank) const {
    return tolerates_losses || std::find(accepted.begin(), accepted.end(), rank) != accepted.end();
  }
  /// The earliest message that matches.
  std::deque<SimulatedMessage>::iterator Find(int from, int its_tag) {
    return std::find_if(mailbox.begin(), mailbox.end(), [&](const SimulatedMessage& message) {
      return message.tag == its_tag && (from == Communicator::kAnySource || message.source == from);
    });
  }
};

struct SimulatedWorld::State {
  State(int world_size, const ClusterOptions& cluster)
      : hosts(cluster.host, world_size),
        links(cluster.links, world_size),
        ranks(static_cast<size_t>(world_size)),
        shared_sum(world_size) {
    with_turn = world_size;
    for (int r = 0; r < world_size; ++r) machines_fail |= hosts.FailureSeconds(r) < kNever;
  }

  SimulatedRank& at(int rank) { return ranks[static_cast<size_t>(rank)]; }
  bool AllConnected() const {
    return std::all_of(ranks.begin(), ranks.end(), [](const SimulatedRank& r) { return r.connected; });
  }

  // Hands the turn to the rank that is next in virtual time, once nobody has it.
  void PassTurn() {
    if (with_turn > 0 || aborted) return;
    SimulatedRank* next = nullptr;
    for (SimulatedRank& r : ranks) {
      if (!r.ended && r.wake < kNever && (next == nullptr || r.wake < next->wake)) next = &r;
    }
    if (next == nullptr) return;
    while (!accumulations.empty() && accumulations.top().seconds <= next->wake) {
      Apply(accumulations.top());
      accumulations.pop();
    }
    next->has_turn = true;
    with_turn = 1;
    next->turn.notify_one();
  }
  void Apply(const SimulatedAccumulation& p) {
    const auto window = windows.find({p.target, p.window});
    if (window == windows.end()) return;  // the target is lost
    float* memory = window->second.data() + p.offset;
    for (size_t i = 0; i < p.values.size(); ++i) memory[i] += p.scale * p.values[i];
  }
  // Whether a loss ends an exchange of `me` with `peer`.
  bool LossStops(const SimulatedRank& me, int peer) const {
    if (lost.empty()) return false;
    if (!std::all_of(lost.begin(), lost.end(), [&](int r) { return me.HasDealtWith(r); })) return true;
    if (peer == Communicator::kAnySource) return lost.size() + 1 == ranks.size();
    return ranks[static_cast<size_t>(peer)].lost;
  }
  // Whoever waits for this rank need not wait any longer.
  void End(int rank, bool is_lost) {
    SimulatedRank& ended = at(rank);
    ended.ended = true;
    ended.lost = ended.usage.lost = is_lost;
    ended.usage.end_seconds = ended.clock;
    std::erase_if(windows, [&](const auto& window) { return window.first.first == rank; });
    if (!is_lost) return;
    lost.push_back(rank);
    for (SimulatedRank& r : ranks) {
      if (r.receiving && LossStops(r, r.source) && r.Find(r.source, r.tag) == r.mailbox.end()) {
        r.wake = std::min(r.wake, std::max(r.clock, ended.clock));
      }
    }
  }

  std::mutex mutex;
  HostModel hosts;  // everything below is guarded by mutex
  LinkModel links;
  std::deque<SimulatedRank> ranks;                          // never moves: condition variables
  std::map<std::pair<int, int>, std::span<float>> windows;  // (rank, id)
  std::priority_queue<SimulatedAccumulation> accumulations;
  SharedSum shared_sum;
  int64_t issued = 0;
  std::vector<int> lost;  // ranks, in the order of their failures
  int with_turn;
  bool machines_fail = false;
  std::vector<std::vector<float>> left_behind;  // memory of open windows
  AbortReason abort_reason;
  bool aborted = false;
};

}  // namespace antiphon::comm
