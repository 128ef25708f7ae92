// Sums and broadcasts of long values in pieces: a reduce-scatter and an all-gather, inside nodes first.
//
// Each piece (comm/sum_plan.h) goes from all ranks of a node to the one that collects it there, which adds what can be
// added inside the node; from there to the owner, which finishes the sum; and back the same way. With N equal nodes,
// each sends and receives 2 · (N − 1)/N times the values over the network, however many ranks it has, and all
// links work at once; a tree sends them log₂ N times one after the other each way. The bits are the tree's.
//
// A broadcast gives each other node a share of the values, and these give theirs to one another.
// Threads: one per rank. Collective: all ranks of the group in the same order, with equally many values. Errors: those
// of the carrier.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "comm/simulated_time.h"
#include "comm/sum_plan.h"

namespace antiphon::comm {

/// Carries the messages of one sum between positions in its group. Messages of each pair arrive in the order sent.
class SumCarrier {
 public:
  virtual ~SumCarrier() = default;
  /// This rank's position.
  virtual int position() const = 0;
  virtual void Send(int to, std::span<const std::byte> bytes) = 0;
  /// The same for bytes that are of no more use.
  virtual void SendAway(int to, std::vector<std::byte>& bytes) = 0;
  /// Throws InputError for a message of another size.
  virtual std::vector<std::byte> Receive(int from, size_t size) = 0;
  /// For a simulated clock.
  virtual void Handled(Handling what, size_t bytes) = 0;
};

void SumInPieces(SumCarrier& carrier, const SumPlan& plan, std::span<float> values);
void SumInPieces(SumCarrier& carrier, const SumPlan& plan, std::span<double> values);
void BroadcastInPieces(SumCarrier& carrier, const SumPlan& plan, int root, std::span<std::byte> bytes);

}  // namespace antiphon::comm
