// A rank that is lost in the middle of what it sends.
#pragma once

#include <span>
#include <vector>

#include "comm/rank_threads.h"
#include "parallel/sub_communicator.h"

namespace antiphon::parallel {

// Its rank is lost instead of sending message number `messages` (from 0) after DieAfter. What of its last three
// messages was meant for rank `slow` is lost with it.
class DiesSending : public SubCommunicator {
 public:
  explicit DiesSending(comm::Communicator& whole) : SubCommunicator(whole, AllOf(whole), 900) {
    whole.set_deadline_seconds(60);
  }
  void DieAfter(int messages, int slow = -1) {
    left_ = messages;
    slow_ = slow;
  }
  void Send(int destination, int tag, std::span<const std::byte> bytes) override {
    if (left_ == 0) throw comm::RankLost("killed");
    const bool arrives = left_ < 0 || left_ > 3 || destination != slow_;
    if (left_ > 0) --left_;
    if (arrives) return SubCommunicator::Send(destination, tag, bytes);
    swallowed_ = true;
  }
  comm::Message Receive(int source, int tag) override {
    End();
    return SubCommunicator::Receive(source, tag);
  }
  /// Who waits for others, or has come to its end, is lost here if something did not arrive.
  void End() const {
    if (swallowed_) throw comm::RankLost("killed");
  }

 private:
  static std::vector<int> AllOf(const comm::Communicator& whole) {
    std::vector<int> ranks;
    for (int r = 0; r < whole.world_size(); ++r) ranks.push_back(r);
    return ranks;
  }
  int left_ = -1;
  int slow_ = -1;
  bool swallowed_ = false;
};

}  // namespace antiphon::parallel
