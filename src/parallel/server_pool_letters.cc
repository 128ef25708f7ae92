// The part of ServerPool that takes letters in, and has requests handled in their order.
//
// What belongs to a letter comes behind its head, on slow links much later; whoever serves beside the arithmetic does
// not wait for it. Letters of one rank count in the order sent.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "parallel/server_pool.h"

namespace antiphon::parallel {

void ServerPool::ServeAll() {
  while (comm_.Poll(comm::Communicator::kAnySource, kHeadTag)) {
    if (!ReceiveHead()) break;
  }
  while (TakeWhole()) continue;
}

// Waits.
void ServerPool::ReceiveOne() {
  while (!TakeWhole()) {
    if (!incoming_.empty() && !comm_.Poll(comm::Communicator::kAnySource, kHeadTag)) {
      Letter& first = incoming_.front();
      const std::optional<comm::Message> payload = ReceiveUnlessLost(first.source, kPayloadTag);
      if (!payload) return;
      first.owned = std::move(payload->bytes);
      first.expected = 0;
    } else if (!ReceiveHead()) {
      return;
    }
  }
}

// False if somebody was lost meanwhile.
bool ServerPool::ReceiveHead() {
  const std::optional<comm::Message> message = ReceiveUnlessLost(comm::Communicator::kAnySource, kHeadTag);
  if (!message) return false;
  LetterHead head{};
  CHECK_EQ(message->bytes.size(), sizeof(head));
  std::memcpy(&head, message->bytes.data(), sizeof(head));
  Letter letter{message->source, static_cast<Kind>(head.kind), head.number, head.real, {}, {}};
  letter.expected = head.payload_bytes;
  incoming_.push_back(std::move(letter));
  return true;
}

// The first letter of a rank all of which is here goes on; false if there is none.
bool ServerPool::TakeWhole() {
  std::erase_if(incoming_, [&](const Letter& l) { return gone_[static_cast<size_t>(l.source)]; });
  for (auto next = incoming_.begin(); next != incoming_.end(); ++next) {
    const auto same = [&](const Letter& before) { return before.source == next->source; };
    if (std::any_of(incoming_.begin(), next, same)) continue;
    if (next->expected > 0) {
      if (!comm_.Poll(next->source, kPayloadTag)) continue;
      std::optional<comm::Message> payload = ReceiveUnlessLost(next->source, kPayloadTag);
      if (!payload) return false;
      next->owned = std::move(payload->bytes);
    }
    Letter letter = std::move(*next);
    incoming_.erase(next);
    if (letter.kind >= Kind::kGranted) {
      replies_.push_back(std::move(letter));
    } else {
      requests_.push_back(std::move(letter));
      HandleRequests();
    }
    return true;
  }
  return false;
}

// In the order of arrival, or in that of the log as far as it has come.
void ServerPool::HandleRequests() {
  while (!requests_.empty()) {
    auto next = requests_.begin();
    if (log_.replaying()) {
      next = std::find_if(requests_.begin(), requests_.end(), [&](const Letter& l) { return IsNext(l); });
      if (next == requests_.end()) return;
    }
    const Letter letter = std::move(*next);
    requests_.erase(next);
    log_.Record(letter.arrival());
    Handle(letter);
  }
}

ServerPool::Letter ServerPool::WaitFor(Kind kind, int source) {
  for (;;) {
    const auto found = std::find_if(replies_.begin(), replies_.end(),
                                    [&](const Letter& l) { return l.kind == kind && l.source == source; });
    if (found != replies_.end()) {
      Letter letter = std::move(*found);
      replies_.erase(found);
      return letter;
    }
    ReceiveOne();
  }
}

}  // namespace antiphon::parallel
