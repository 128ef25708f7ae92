// Messages between the ranks of one run, whatever carries them.
//
// A rank is one worker of the experiment (0 … world_size − 1). Implementations give buffered point-to-point messages,
// one-sided windows, a clock and deadlines; collectives are built here from messages, and sums run in a fixed tree
// over ranks, so that they have the same bits whatever carries them. Long ones go in pieces, inside nodes first
// (comm/long_sum.h). World size 1 is a working communicator.
//
// Matching: messages of one (source, destination, tag) arrive in the order sent. Collectives must be called by all
// ranks in the same order. Tags from kFirstInternalTag belong to the collectives. Threads: one thread per rank, unless
// an implementation says more. Deadlines: every wait ends after `deadline_seconds` with a PeerError that names rank,
// operation, peer and step. Errors: PeerError for a deadline, a rank that called Abort (its message is passed on, as a
// UsageError if it refused a plan) or a lost rank; InputError for a message of another size than the receiver's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "comm/abort_reason.h"
#include "comm/loss_tolerance.h"
#include "comm/simulated_time.h"

namespace antiphon::comm {

/// A rank died, and the communicator can go on without it (MPI with fault tolerance).
class PeerLost : public PeerError {
  using PeerError::PeerError;
};

struct Message {
  int source = 0;
  std::vector<std::byte> bytes;
};

class Communicator {
 public:
  static constexpr int kAnySource = -1;
  /// Each of the others has tags of its own: pipelines and exchanges of gradients, of which a run has one, begin at 1
  /// and 2^16, meetings of a training's ranks at 2^22, teams at 2^23, parts of models at 2^24, letters to servers at
  /// 2^25, groups of ranks at 2^26, votes about lost ranks at 2^27.
  static constexpr int kFirstInternalTag = 1 << 28;

  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  /// A number for the machine that a rank runs on: links inside are faster than those between.
  virtual int Node(int rank) const { return (void)rank, 0; }

  /// Buffered: `bytes` may be overwritten when this returns; a rank may send to itself.
  virtual void Send(int destination, int tag, std::span<const std::byte> bytes) = 0;
  /// The same for bytes that the caller has no more use for: they may be taken from it instead of copied, if nothing is
  /// thrown.
  virtual void SendAway(int destination, int tag, std::vector<std::byte>& bytes) {
    Send(destination, tag, std::span<const std::byte>(bytes));
  }
  /// Waits for a message; `source` may be kAnySource (then the earliest arrival).
  virtual Message Receive(int source, int tag) = 0;
  /// True if Receive would return at once.
  virtual bool Poll(int source, int tag) = 0;
  /// Between true and false this rank does nothing but poll: messages are carried as fast as to one that receives.
  virtual void SetListening(bool listening) { (void)listening; }

  /// Offers `memory` to the one-sided operations of all ranks under `id`; it must stay until CloseWindow. Collective.
  virtual void OpenWindow(int id, std::span<float> memory) = 0;
  virtual void CloseWindow(int id) = 0;
  /// Whoever offered `memory` goes away with its window open, because of an error: it stays, until the world ends, for
  /// those who do not know yet.
  virtual void LeaveBehind(std::vector<float> memory) = 0;
  /// memory[offset + i] += scale · values[i] on rank `target`; each element atomically, the whole not.
  virtual void Accumulate(int target, int id, size_t offset, float scale, std::span<const float> values) = 0;
  /// Reads from rank `target`; elements may come from between two accumulations.
  virtual void Get(int target, int id, size_t offset, std::span<float> values) = 0;

  /// Seconds since some fixed moment; virtual on simulated clusters.
  virtual double Now() const = 0;

  /// Makes every waiting and every later operation of all ranks throw what the reason says.
  virtual void Abort(const AbortReason& reason) = 0;

  // What not every communicator has; null where it has not.
  /// If Now and deadlines run in simulated time.
  virtual SimulatedTime* simulation() { return nullptr; }
  /// If the loss of single ranks is noticed.
  virtual LossTolerance* losses() { return nullptr; }
  /// If a lost rank is survived, from now on (parallel/surviving_communicator.h).
  virtual Survivors* survivors() { return nullptr; }

  bool time_is_virtual() { return simulation() != nullptr; }
  /// Tell a simulated clock of work; free of cost elsewhere.
  void Compute(double seconds) {
    if (SimulatedTime* const time = simulation()) time->Compute(seconds);
  }
  void ComputeFlops(double flops) { Compute(flops / SimulatedTime::kReferenceFlops); }
  void Handled(Handling what, size_t bytes, std::string_view codec = {}) {
    if (SimulatedTime* const time = simulation()) time->Handled(what, bytes, codec);
  }

  /// Calls `body`, in which the ranks wait for each other; where there are survivors, again and again until all that
  /// are left got through it together. Collective.
  void Together(const std::function<void()>& body) {
    Survivors* const left = survivors();
    left != nullptr ? left->GoThrough(body) : body();
  }
  /// The same for a body that overwrites `values`, which it finds as they are now each time.
  void Together(std::span<float> values, const std::function<void()>& body);

  // Collectives.
  void Barrier();
  /// Sums over ranks; every rank gets the same bits. Tree: rank r adds r + 1, r + 2, r + 4 … that belong to it; the
  /// order of additions is the same in pieces.
  void AllReduce(std::span<float> values);
  void AllReduce(std::span<double> values);
  /// Only `root` gets the sum, in the same tree order; the others' values are undefined afterwards.
  void Reduce(int root, std::span<float> values);
  /// As AllReduce, but rank r keeps only part [Part(r), Part(r + 1)) of the sum; the rest is undefined afterwards.
  void ReduceScatter(std::span<float> values);
  /// Every rank gives its part [Part(r), Part(r + 1)) and gets the others'.
  void AllGatherParts(std::span<float> values);
  void Broadcast(int root, std::span<std::byte> bytes);
  void Broadcast(int root, std::span<float> values) { Broadcast(root, std::as_writable_bytes(values)); }
  /// One equally long message per rank, in the order of ranks.
  std::vector<std::byte> AllGather(std::span<const std::byte> mine);
  /// First index of rank r's part of `size` values.
  size_t Part(int r, size_t size) const;

  /// What errors name.
  virtual void SetStep(int64_t step) { step_.store(step, std::memory_order_relaxed); }
  int64_t step() const { return step_.load(std::memory_order_relaxed); }
  /// Payload of messages and one-sided operations that this rank began, collectives included; not what it sent itself.
  virtual int64_t bytes_sent() const { return bytes_sent_; }
  /// Seconds, by Now, that this rank has waited for messages of each rank.
  virtual std::vector<double> waited_seconds() const {
    return std::vector<double>(static_cast<size_t>(world_size()), 0.0);
  }
  double deadline_seconds() const { return deadline_seconds_; }
  virtual void set_deadline_seconds(double seconds) { deadline_seconds_ = seconds; }

 protected:
  /// "rank 2 of 4, receiving from rank 0, step 17".
  std::string Describe(std::string_view operation) const;
  /// A faster AllReduce with the same bits; false if there is none. On all ranks alike.
  virtual bool SumShared(std::span<float> values) {
    (void)values;
    return false;
  }
  /// Implementations call it for what goes to other ranks.
  void CountSent(size_t bytes) { bytes_sent_ += static_cast<int64_t>(bytes); }

 private:
  class Pieces;
  template <class T>
  void TreeReduce(std::span<T> values);
  template <class T>
  void SumOverRanks(std::span<T> values);
  void BroadcastByTree(int root, std::span<std::byte> bytes);
  /// InputError if the message has another size.
  Message ReceiveSized(int source, int tag, size_t size);
  void ReceiveInto(int source, int tag, std::span<std::byte> bytes);
  std::atomic<int64_t> step_ = 0;  // a second thread that sends reads it
  int64_t bytes_sent_ = 0;
  double deadline_seconds_ = 600;
};

}  // namespace antiphon::comm
