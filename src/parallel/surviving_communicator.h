// A communicator of those ranks that are left when others are lost.
//
// Until a rank is lost it is the whole communicator. From then on its ranks are the living ones, renumbered without
// gaps, so that what is written for N ranks works with those that are left. The numbering changes within Together
// alone: its end is a vote at rank 0, which sees who is gone, and tells all whether everybody got through; if not, all
// begin the body anew without the lost ones. So nobody takes a result that another one lacks.
//
// If rank 0 itself is lost, the next living rank takes the vote. Some may have been told the outcome and others not:
// a ballot names its vote and brings the outcome of the vote before, so that whoever is one vote ahead tells the new
// rank 0 what the old one has said, and nobody else decides it again. Nobody can be two votes ahead, as a vote needs
// everybody. Who leaves for good tells all the outcome of the last vote (Leave).
// Cost: one small message of each rank to rank 0 and back per Together, and a copy of what its body overwrites.
// Losses before GoOn are thrown as PeerLost.
// Threads, deadlines: as the whole, which outlives this. Errors: PeerLost if it cannot go on, on all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "comm/second_thread.h"
#include "parallel/loss_of_ranks.h"
#include "parallel/sub_communicator.h"

namespace antiphon::parallel {

class SurvivingCommunicator : public comm::Communicator, public comm::SecondThread, public comm::Survivors {
 public:
  explicit SurvivingCommunicator(comm::Communicator& whole) : whole_(whole) {}

  /// From now on losses are survived. `told` is called for each of them on all ranks that are left, after renumbering
  /// and before the body begins anew; it may throw PeerLost, on all ranks, if there is no going on. Collective.
  void GoOn(std::function<void(const Loss&)> told);

  int rank() const override { return now().rank(); }
  int world_size() const override { return now().world_size(); }
  int Node(int rank) const override { return now().Node(rank); }
  void Send(int destination, int tag, std::span<const std::byte> bytes) override {
    now().Send(destination, tag, bytes);
  }
  void SendAway(int destination, int tag, std::vector<std::byte>& bytes) override {
    now().SendAway(destination, tag, bytes);
  }
  comm::Message Receive(int source, int tag) override { return now().Receive(source, tag); }
  bool Poll(int source, int tag) override { return now().Poll(source, tag); }
  void SetListening(bool listening) override { whole_.SetListening(listening); }
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
  void Abort(const comm::AbortReason& reason) override { whole_.Abort(reason); }

  comm::SimulatedTime* simulation() override { return whole_.simulation(); }
  comm::LossTolerance* losses() override { return now().losses(); }
  comm::Survivors* survivors() override { return told_ ? this : nullptr; }
  void GoThrough(const std::function<void()>& body) override;
  /// This rank leaves because of a loss: whoever is in Together, or comes to it, need not wait for it.
  void GiveUp();
  /// This rank has come to its end. It may be the only one that knows how the last vote ended.
  void Leave();

  /// As the whole; not where losses are survived.
  bool allowed() const override;
  void AwaitNews(double seconds) override;

  void SetStep(int64_t step) override;
  int64_t bytes_sent() const override { return whole_.bytes_sent(); }
  /// Of the ranks as numbered at the start.
  std::vector<double> waited_seconds() const override { return whole_.waited_seconds(); }
  void set_deadline_seconds(double seconds) override;

 protected:
  bool SumShared(std::span<float> values) override;

 private:
  enum Outcome : int32_t { kAgain, kThrough, kGivesUp };
  struct Decision {
    int64_t vote = 0;
    Outcome outcome = kThrough;
    std::vector<int> lost;  // as numbered at the start
  };
  struct Ballot {
    int64_t vote = 0;
    Outcome outcome = kThrough;
    Decision last;  // of the vote before
  };
  struct Post;
  comm::Communicator& now() { return part_ ? *part_ : whole_; }
  const comm::Communicator& now() const { return part_ ? *part_ : whole_; }
  bool Vote(bool through);
  std::optional<Decision> AskFirst(const Ballot& mine);
  Decision Count(const Ballot& mine);
  std::optional<Ballot> Collect(int rank);
  void TellAll(const Decision& decision);
  void CastAtAll(Outcome outcome);
  void Renumber(const Decision& decision);

  comm::Communicator& whole_;
  std::function<void(const Loss&)> told_;
  std::vector<int> living_;   // as numbered at the start
  std::vector<int> missing_;  // of these, those that are found lost in the vote under way
  int64_t votes_ = 0;
  Decision last_;                          // of the last vote
  std::map<int, Ballot> ahead_;            // of ranks that are in the next vote already
  std::unique_ptr<SubCommunicator> part_;  // once some are lost
  int numberings_ = 0;
  bool together_ = false;
};

}  // namespace antiphon::parallel
