// The part of ServerPool that takes letters in, and has requests handled in their order.
#include <algorithm>
#include <utility>

#include "parallel/server_pool.h"

namespace antiphon::parallel {

void ServerPool::ServeAll() {
  while (std::optional<Letter> letter = incoming_.Next()) Accept(std::move(*letter));
}

void ServerPool::ReceiveOne() {
  if (std::optional<Letter> letter = incoming_.Await()) Accept(std::move(*letter));
}

void ServerPool::Accept(Letter letter) {
  if (letter.kind >= Kind::kGranted) return replies_.push_back(std::move(letter));
  requests_.push_back(std::move(letter));
  HandleRequests();
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
