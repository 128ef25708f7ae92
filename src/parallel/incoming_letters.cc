#include "parallel/incoming_letters.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace antiphon::parallel {

std::optional<PoolLetter> IncomingLetters::Next() {
  while (comm_.Poll(comm::Communicator::kAnySource, kHeadTag)) {
    if (!TakeHead()) break;
  }
  return FirstWhole();
}

std::optional<PoolLetter> IncomingLetters::Await() {
  for (;;) {
    if (std::optional<PoolLetter> letter = FirstWhole()) return letter;
    if (!letters_.empty() && !comm_.Poll(comm::Communicator::kAnySource, kHeadTag)) return TakeOut(letters_.begin());
    if (!TakeHead()) return std::nullopt;
  }
}

void IncomingLetters::Drop(int source) {
  std::erase_if(letters_, [&](const PoolLetter& letter) { return letter.source == source; });
}

// False if somebody was lost meanwhile.
bool IncomingLetters::TakeHead() {
  const std::optional<comm::Message> message = receive_(comm::Communicator::kAnySource, kHeadTag);
  if (!message) return false;
  PoolLetterHead head{};
  CHECK_EQ(message->bytes.size(), sizeof(head));
  std::memcpy(&head, message->bytes.data(), sizeof(head));
  PoolLetter letter{message->source, static_cast<PoolLetterKind>(head.kind), head.number, head.real, {}, {}};
  letter.expected = head.payload_bytes;
  letters_.push_back(std::move(letter));
  return true;
}

std::optional<PoolLetter> IncomingLetters::FirstWhole() {
  for (auto place = letters_.begin(); place != letters_.end(); ++place) {
    const int source = place->source;
    const auto same = [&](const PoolLetter& before) { return before.source == source; };
    if (std::any_of(letters_.begin(), place, same)) continue;
    if (place->expected == 0 || comm_.Poll(source, kPayloadTag)) return TakeOut(place);
  }
  return std::nullopt;
}

// Waits for what belongs to it. Losses meanwhile drop letters.
std::optional<PoolLetter> IncomingLetters::TakeOut(const std::deque<PoolLetter>::iterator& place) {
  PoolLetter letter = std::move(*place);
  letters_.erase(place);
  if (letter.expected == 0) return letter;
  std::optional<comm::Message> payload = receive_(letter.source, kPayloadTag);
  if (!payload) return std::nullopt;
  letter.owned = std::move(payload->bytes);
  letter.expected = 0;
  return letter;
}

}  // namespace antiphon::parallel
