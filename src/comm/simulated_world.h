// Ranks of a simulated cluster: their arithmetic is really done, their time is virtual.
//
//   const SimulationReport report = RunSimulated(16, cluster, [&](Communicator& comm) { … });
//
// Each rank is a thread with a clock of its own, which only Compute, messages and one-sided operations move forward, by
// the host and link models. One rank runs at a time: at each operation, whoever has the least clock goes on (the least
// rank among equals). So messages are sent, and accumulations take effect, in the order of virtual time, and a run has
// the same bits and the same times whatever the machine does, also with kAnySource and one-sided operations.
//
// Time: Send costs the sender message-us and its bytes at send-gb-s; Receive ends when the message arrives; Get takes a
// way there and back; an Accumulate takes effect when it has arrived, and the caller's next collective waits for that.
// A Poll that finds nothing costs a microsecond, and more when repeated with nothing in between. Deadlines are virtual;
// a rank that is never connected is waited for in real time. Failures: a rank's next operation after its failure throws
// RankLost; the others get PeerLost as communicator.h says. A rank must not block on anything but its communicator
// while others wait for it there. Threads: as thread_world.h. Errors: UsageError for clusters that cannot be; otherwise
// as communicator.h.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/cluster.h"
#include "comm/communicator.h"

namespace antiphon::comm {

/// What became of one rank's virtual time.
struct RankUsage {
  double compute_seconds = 0;
  double waiting_seconds = 0;  // in operations
  double end_seconds = 0;
  double bytes_sent = 0;
  int64_t messages = 0;
  bool lost = false;
};

struct SimulationReport {
  std::vector<RankUsage> ranks;
  double seconds() const;  // until the last rank ended
  double bytes_sent() const;
};

class SimulatedWorld {
 public:
  SimulatedWorld(int world_size, const ClusterOptions& cluster);
  ~SimulatedWorld();
  /// Once per rank.
  std::unique_ptr<Communicator> Connect(int rank);
  /// Complete when all communicators are gone.
  SimulationReport Report() const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

/// As RunRanks.
SimulationReport RunSimulated(int world_size, const ClusterOptions& cluster,
                              const std::function<void(Communicator&)>& body);

}  // namespace antiphon::comm
