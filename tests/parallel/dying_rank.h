// A rank that is lost in the middle of what it sends.
#pragma once

#include <span>
#include <vector>

#include "comm/rank_threads.h"
#include "parallel/sub_communicator.h"

namespace antiphon::parallel {

// Its rank is lost instead of sending message number `messages` (from 0) after DieAfter.
class DiesSending : public SubCommunicator {
 public:
  explicit DiesSending(comm::Communicator& whole) : SubCommunicator(whole, AllOf(whole), 900) {
    whole.set_deadline_seconds(60);
  }
  void DieAfter(int messages) { left_ = messages; }
  void Send(int destination, int tag, std::span<const std::byte> bytes) override {
    if (left_ == 0) throw comm::RankLost("killed");
    if (left_ > 0) --left_;
    SubCommunicator::Send(destination, tag, bytes);
  }

 private:
  static std::vector<int> AllOf(const comm::Communicator& whole) {
    std::vector<int> ranks;
    for (int r = 0; r < whole.world_size(); ++r) ranks.push_back(r);
    return ranks;
  }
  int left_ = -1;
};

}  // namespace antiphon::parallel
