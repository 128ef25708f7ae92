// What a communicator offers to those who want to go on when a rank is lost.
//
// Threads, errors: as the communicator that offers it (Communicator::losses, Communicator::survivors).
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace antiphon::comm {

/// A transport that notices the loss of single ranks. Without it a lost rank ends the run by a deadline.
class LossTolerance {
 public:
  /// Whether those that are left can go on.
  virtual bool survives_losses() const = 0;
  /// After a loss, every wait throws PeerLost. With `tolerate`, only waits for lost ranks do, and what is sent to
  /// them is dropped, so that this rank can go on with those that are left.
  virtual void TolerateLosses(bool tolerate) = 0;
  /// The same for the loss of these ranks alone, with which the caller has dealt.
  virtual void AcceptLosses(std::span<const int> ranks) = 0;
  /// Ascending.
  virtual std::vector<int> LostRanks() const = 0;
  /// Makes this rank a lost one, where ranks are threads of one process.
  virtual void BecomeLost() {}

 protected:
  ~LossTolerance() = default;
};

/// A communicator of those that are left, which goes through an exchange again without a rank that was lost in it.
class Survivors {
 public:
  /// Calls `body`, in which the ranks wait for each other, again and again until all that are left got through it
  /// together. Collective.
  virtual void GoThrough(const std::function<void()>& body) = 0;

 protected:
  ~Survivors() = default;
};

}  // namespace antiphon::comm
