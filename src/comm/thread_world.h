// Ranks as threads of one process: messages through mailboxes in shared memory.
//
//   RunRanks(4, [&](Communicator& comm) { … });
//
// Determinism: collectives are (communicator.h); Receive from kAnySource and one-sided operations follow real arrival.
// Threads: each Communicator belongs to the thread of its rank; Abort and Accumulate may be called from any.
#pragma once

#include <functional>
#include <memory>

#include "comm/communicator.h"

namespace antiphon::comm {

class Hub;

/// The shared part of a world of threads. Communicators keep it alive.
class ThreadWorld {
 public:
  explicit ThreadWorld(int world_size, bool survive_losses = false);
  ~ThreadWorld();
  /// Once per rank.
  std::unique_ptr<Communicator> Connect(int rank);

 private:
  std::shared_ptr<Hub> hub_;
};

/// The communicator of a run with one worker.
std::unique_ptr<Communicator> MakeSelfCommunicator();

/// Runs body in one thread per rank and waits for all. A rank that throws aborts the others; the error of the rank that
/// failed first is rethrown with its rank in front.
void RunRanks(int world_size, const std::function<void(Communicator&)>& body);
/// The same, but a rank that throws RankLost is lost as a dead process is, and the others can go on.
void RunLosableRanks(int world_size, const std::function<void(Communicator&)>& body);

}  // namespace antiphon::comm
