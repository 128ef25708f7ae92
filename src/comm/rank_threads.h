// Runs one function per rank, each in its own thread: the common frame of every world.
#pragma once

#include <functional>
#include <memory>

#include "base/error.h"
#include "comm/communicator.h"

namespace antiphon::comm {

/// The rank's own machine failed: leaves the rank's body, and ends this rank alone. The others learn of it when they
/// wait for the lost rank.
class RankLost : public PeerError {
  using PeerError::PeerError;
};

/// Thrown by every rank once all have agreed to stop. As WorldEnds (comm/process_group.h), it ends the rank that throws
/// it and does not break off the others, which throw it themselves.
class AgreedToStop : public Cancelled {
  using Cancelled::Cancelled;
};

/// Connects the ranks [first, first + count), those that live in this process, and runs body in one thread per rank;
/// waits for all. A rank that throws aborts the others; the error of the rank that failed first is rethrown with its
/// rank in front. RankLost is no error unless all ranks are lost. PeerLost aborts nobody: whoever it concerns meets it
/// too; nor do AgreedToStop and WorldEnds. Any other Cancelled aborts: this rank alone gave up waiting. Who asks the
/// caller to stop (base/cancel.h) asks the ranks.
void RunRankThreads(int first, int count, const std::function<std::unique_ptr<Communicator>(int rank)>& connect,
                    const std::function<void(Communicator&)>& body);

}  // namespace antiphon::comm
