// A communicator of those ranks that are left when others are lost.
//
// Until a rank is lost it is the whole communicator. From then on its ranks are the living ones, renumbered without
// gaps, so that what is written for N ranks works with those that are left. The numbering changes within Together
// alone: its end is a vote at rank 0, which sees who is gone, and tells all whether everybody got through; if not, all
// begin the body anew without the lost ones. So nobody takes a result that another one lacks.
// Cost: one small message of each rank to rank 0 and back per Together, and a copy of what its body overwrites.
// Rank 0 cannot be replaced: its loss is thrown as PeerLost, as is every loss before GoOn.
// Threads, deadlines: as the whole, which outlives this. Errors: PeerLost if it cannot go on, on all ranks.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/second_thread.h"
#include "parallel/loss_of_ranks.h"
#include "parallel/sub_communicator.h"

namespace antiphon::parallel {

class SurvivingCommunicator : public comm::Communicator, public comm::SecondThread {
 public:
  explicit SurvivingCommunicator(comm::Communicator& whole) : whole_(whole) {}

  /// From now on losses are survived. `told` is called for each of them on all ranks that are left, after renumbering
  /// and before the body begins anew; it may throw PeerLost, on all ranks, if there is no going on. Collective.
  void GoOn(std::function<void(const Loss&)> told);

  int rank() const override { return now().rank(); }
  int world_size() const override { return now().world_size(); }
  void Send(int destination, int tag, std::span<const std::byte> bytes) override {
    now().Send(destination, tag, bytes);
  }
  void SendAway(int destination, int tag, std::vector<std::byte>& bytes) override {
    now().SendAway(destination, tag, bytes);
  }
  comm::Message Receive(int source, int tag) override { return now().Receive(source, tag); }
  bool Poll(int source, int tag) override { return now().Poll(source, tag); }
  void OpenWindow(int id, std::span<float> memory) override { now().OpenWindow(id, memory); }
  void CloseWindow(int id) override { now().CloseWindow(id); }
  void LeaveBehind(std::vector<float> memory) override { whole_.LeaveBehind(std::move(memory)); }
  void Accumulate(int target, int id, size_t offset, float scale, std::span<const float> values) override {
    now().Accumulate(target, id, offset, scale, values);
  }
  void Get(int target, int id, size_t offset, std::span<float> values) override {
    now().Get(target, id, offset, values);
  }
  double Now() const override { return whole_.Now(); }
  bool time_is_virtual() const override { return whole_.time_is_virtual(); }
  void Compute(double seconds) override { whole_.Compute(seconds); }
  void Handled(Handling what, size_t bytes, std::string_view codec) override { whole_.Handled(what, bytes, codec); }
  void Abort(const comm::AbortReason& reason) override { whole_.Abort(reason); }

  bool survives_losses() const override { return whole_.survives_losses(); }
  void TolerateLosses(bool tolerate) override { whole_.TolerateLosses(tolerate); }
  void AcceptLosses(std::span<const int> ranks) override { now().AcceptLosses(ranks); }
  std::vector<int> LostRanks() const override { return now().LostRanks(); }
  void BecomeLost() override { whole_.BecomeLost(); }
  using Communicator::Together;
  void Together(const std::function<void()>& body) override;
  bool goes_on_without_lost() const override { return told_ != nullptr; }
  void GiveUp() override;

  /// As the whole; not where losses are survived.
  bool allowed() const override;
  void AwaitMessage(int source, int tag, double seconds) override;

  void SetStep(int64_t step) override;
  int64_t bytes_sent() const override { return whole_.bytes_sent(); }
  void set_deadline_seconds(double seconds) override;

 protected:
  bool SumShared(std::span<float> values) override;

 private:
  struct Decision;
  comm::Communicator& now() { return part_ ? *part_ : whole_; }
  const comm::Communicator& now() const { return part_ ? *part_ : whole_; }
  bool Vote(bool through);
  Decision Count(bool through);
  void Tell(const Decision& decision);
  void Renumber(const std::vector<int>& lost);

  comm::Communicator& whole_;
  std::function<void(const Loss&)> told_;
  std::vector<int> living_;                // as numbered at the start
  std::unique_ptr<SubCommunicator> part_;  // once some are lost
  int numberings_ = 0;
  bool together_ = false;
};

}  // namespace antiphon::parallel
