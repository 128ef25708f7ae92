// The part of ServerPool that goes on without lost workers.
#include <algorithm>

#include "parallel/server_pool.h"

namespace antiphon::parallel {

// Nothing if the sender, or of any senders one, is lost.
std::optional<comm::Message> ServerPool::ReceiveUnlessLost(int source, int tag) {
  for (;;) {
    try {
      return comm_.Receive(source, tag);
    } catch (const comm::PeerLost&) {
      NoteLosses();
      if (source == comm::Communicator::kAnySource || gone_[static_cast<size_t>(source)]) return std::nullopt;
    }
  }
}

// In a handler of PeerLost, which flies on if there is no going on.
void ServerPool::NoteLosses() {
  if (comm_.survivors() == nullptr) throw;
  for (const int rank : comm_.losses()->LostRanks()) {
    if (gone_[static_cast<size_t>(rank)]) continue;
    // Some may still wait for rank 0 to end the vote before the round: all have to leave it.
    if (IsServer(rank) || rank == 0) throw;
    gone_[static_cast<size_t>(rank)] = true;
    incoming_.Drop(rank);
    comm_.losses()->AcceptLosses({&rank, 1});
    if (coordinator()) Lose(rank);
  }
}

void ServerPool::Lose(int worker) {
  const auto w = static_cast<size_t>(worker);
  given_back_ += ledger_.Lose(worker);
  promised_[w].clear();
  judged_[w] = clocks_[w];
  done_[w] = true;
  std::erase_if(held_, [&](const Letter& letter) { return letter.source == worker; });
  AnswerHeld();
  ReleaseReaders();
  CloseIfDone();
}

}  // namespace antiphon::parallel
