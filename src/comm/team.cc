#include "comm/team.h"

#include <span>

namespace antiphon::comm {
namespace {

constexpr int kTag = 1 << 23;

std::string TextOf(const Message& message) {
  return {reinterpret_cast<const char*>(message.bytes.data()), message.bytes.size()};
}

}  // namespace

std::vector<std::string> CommunicatorTeam::Exchange(std::string mine, Spread to) {
  std::vector<std::string> all(static_cast<size_t>(size()));
  if (index() > 0) {
    comm_.Send(0, kTag, std::as_bytes(std::span(mine)));
    if (to == Spread::kToFirst) {
      // So that nobody runs ahead with results that the first has no room for.
      comm_.Receive(0, kTag);
      return all;
    }
  }
  all[static_cast<size_t>(index())] = std::move(mine);
  for (int r = 1; r < size(); ++r) {
    std::string& theirs = all[static_cast<size_t>(r)];
    if (index() == 0) theirs = TextOf(comm_.Receive(r, kTag));
  }
  if (to == Spread::kToFirst) {
    for (int r = 1; r < size(); ++r) comm_.Send(r, kTag, {});
    return all;
  }
  for (std::string& text : all) {
    uint64_t bytes = text.size();
    comm_.Broadcast(0, std::as_writable_bytes(std::span(&bytes, 1)));
    text.resize(bytes);
    comm_.Broadcast(0, std::as_writable_bytes(std::span(text)));
  }
  return all;
}

}  // namespace antiphon::comm
