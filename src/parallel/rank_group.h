// Collectives among some of a communicator's ranks: the parts of one replica, or the same part of all replicas.
//
// Sums run in the order of Communicator::AllReduce over the positions in the group, so that a group of all ranks gives
// the same bits, long ones in pieces, inside nodes first (comm/long_sum.h). Tags from kFirstGroupTag belong to groups;
// groups that share ranks and whose collectives may overlap need different `id`s. Threads, deadlines, errors: as the
// communicator.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "comm/communicator.h"

namespace antiphon::parallel {

/// `count` ranks from `first`, `step` apart.
std::vector<int> RanksFrom(int first, int step, int count);

class RankGroup {
 public:
  static constexpr int kFirstGroupTag = 1 << 26;

  /// `ranks` in the order of the sums; this rank is one of them. `id` < 1000.
  RankGroup(comm::Communicator& comm, std::vector<int> ranks, int id);

  int size() const { return static_cast<int>(ranks_.size()); }
  comm::Communicator& comm() const { return comm_; }
  /// While this rank waits for others of the group, `serve` is called again and again: for ranks that must answer
  /// requests meanwhile.
  void ServeWhileWaiting(std::function<void()> serve) { serve_ = std::move(serve); }
  /// This rank's position in the group.
  int index() const { return index_; }
  int rank(int index) const { return ranks_.at(static_cast<size_t>(index)); }

  void AllReduce(std::span<float> values);
  void AllReduce(std::span<double> values);
  void Broadcast(int root_index, std::span<std::byte> bytes);
  /// Everybody's values, by position; lengths may differ.
  std::vector<std::vector<float>> Exchange(std::span<const float> mine);
  /// Half of an exchange each: `mine` goes to position `index`; what that one sent, in the order of its sending.
  void SendTo(int index, std::span<const float> mine);
  void ReceiveFrom(int index, const std::function<void(std::span<const float>)>& take);

  /// Seconds, by the communicator's clock, spent on sending and waiting since the last call.
  double TakeSeconds() { return std::exchange(seconds_, 0.0); }

 private:
  class Pieces;
  template <class T>
  void SumOverGroup(std::span<T> values);
  template <class T>
  void TreeAllReduce(std::span<T> values);
  void Send(int index, int tag, std::span<const std::byte> bytes);
  void ServeUntil(int source, int tag);
  comm::Message Receive(int index, int tag);
  comm::Message ReceiveSized(int index, int tag, size_t size);
  void ReceiveInto(int index, int tag, std::span<std::byte> bytes);

  comm::Communicator& comm_;
  std::vector<int> ranks_;
  int index_ = -1;
  int tag_;
  std::function<void()> serve_;
  double seconds_ = 0;
};

}  // namespace antiphon::parallel
