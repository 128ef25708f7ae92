// Some ranks of a communicator as a communicator of their own, renumbered from 0.
//
// Tags are shifted, so that messages of the whole and of its parts do not meet; ranks may belong to several parts with
// different ids. Windows are not offered. Threads, deadlines, errors: as the whole, which outlives its parts.
#pragma once

#include <utility>
#include <vector>

#include "comm/communicator.h"

namespace antiphon::parallel {

class SubCommunicator : public comm::Communicator, public comm::LossTolerance {
 public:
  /// This rank is one of `ranks`, whose order gives the new numbers; 0 ≤ id < 1000.
  SubCommunicator(comm::Communicator& whole, std::vector<int> ranks, int id);

  int rank() const override { return rank_; }
  int world_size() const override { return static_cast<int>(ranks_.size()); }
  int Node(int rank) const override { return whole_.Node(InWhole(rank)); }
  void Send(int destination, int tag, std::span<const std::byte> bytes) override;
  void SendAway(int destination, int tag, std::vector<std::byte>& bytes) override;
  comm::Message Receive(int source, int tag) override;
  bool Poll(int source, int tag) override;
  void SetListening(bool listening) override { whole_.SetListening(listening); }
  void OpenWindow(int id, std::span<float> memory) override;
  void CloseWindow(int id) override;
  void LeaveBehind(std::vector<float> memory) override { whole_.LeaveBehind(std::move(memory)); }
  void Accumulate(int target, int id, size_t offset, float scale, std::span<const float> values) override;
  void Get(int target, int id, size_t offset, std::span<float> values) override;
  double Now() const override { return whole_.Now(); }
  void Abort(const comm::AbortReason& reason) override { whole_.Abort(reason); }
  comm::SimulatedTime* simulation() override { return whole_.simulation(); }
  comm::LossTolerance* losses() override { return whole_.losses() == nullptr ? nullptr : this; }
  bool survives_losses() const override { return whole_.losses()->survives_losses(); }
  void TolerateLosses(bool tolerate) override { whole_.losses()->TolerateLosses(tolerate); }
  void AcceptLosses(std::span<const int> ranks) override;
  std::vector<int> LostRanks() const override;

 private:
  int Shifted(int tag) const { return tag + (id_ + 1) * kTagsPerPart; }
  int InWhole(int rank) const { return rank == kAnySource ? kAnySource : ranks_.at(static_cast<size_t>(rank)); }
  static constexpr int kTagsPerPart = 1 << 12;  // more than anybody uses from one base on

  comm::Communicator& whole_;
  std::vector<int> ranks_;
  int id_;
  int rank_ = -1;
};

}  // namespace antiphon::parallel
