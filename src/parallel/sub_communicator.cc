#include "parallel/sub_communicator.h"

#include <algorithm>

#include "base/check.h"

namespace antiphon::parallel {

SubCommunicator::SubCommunicator(comm::Communicator& whole, std::vector<int> ranks, int id)
    : whole_(whole), ranks_(std::move(ranks)), id_(id) {
  const auto mine = std::find(ranks_.begin(), ranks_.end(), whole.rank());
  CHECK(mine != ranks_.end()) << "rank " << whole.rank() << " is not in its part";
  rank_ = static_cast<int>(mine - ranks_.begin());
  set_deadline_seconds(whole.deadline_seconds());
}

void SubCommunicator::Send(int destination, int tag, std::span<const std::byte> bytes) {
  whole_.Send(InWhole(destination), Shifted(tag), bytes);
}

void SubCommunicator::SendAway(int destination, int tag, std::vector<std::byte>& bytes) {
  whole_.SendAway(InWhole(destination), Shifted(tag), bytes);
}

comm::Message SubCommunicator::Receive(int source, int tag) {
  comm::Message message = whole_.Receive(InWhole(source), Shifted(tag));
  const auto sender = std::find(ranks_.begin(), ranks_.end(), message.source);
  CHECK(sender != ranks_.end()) << "rank " << message.source << " sent to a part that it is not in";
  message.source = static_cast<int>(sender - ranks_.begin());
  return message;
}

void SubCommunicator::AcceptLosses(std::span<const int> ranks) {
  std::vector<int> in_whole;
  for (const int r : ranks) in_whole.push_back(InWhole(r));
  whole_.losses()->AcceptLosses(in_whole);
}

std::vector<int> SubCommunicator::LostRanks() const {
  const std::vector<int> lost = whole_.losses()->LostRanks();
  std::vector<int> mine;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (std::binary_search(lost.begin(), lost.end(), ranks_[i])) mine.push_back(static_cast<int>(i));
  }
  return mine;
}

bool SubCommunicator::Poll(int source, int tag) { return whole_.Poll(InWhole(source), Shifted(tag)); }

void SubCommunicator::OpenWindow(int, std::span<float>) { CHECK(false) << "parts of a communicator have no windows"; }
void SubCommunicator::CloseWindow(int) { CHECK(false) << "parts of a communicator have no windows"; }
void SubCommunicator::Accumulate(int, int, size_t, float, std::span<const float>) {
  CHECK(false) << "parts of a communicator have no windows";
}
void SubCommunicator::Get(int, int, size_t, std::span<float>) {
  CHECK(false) << "parts of a communicator have no windows";
}

}  // namespace antiphon::parallel
