#include "comm/abort_reason.h"

#include "base/error.h"

namespace antiphon::comm {

AbortReason AbortReason::Of(const std::exception& error) {
  return {error.what(), dynamic_cast<const UsageError*>(&error) != nullptr};
}

AbortReason AbortReason::From(int rank) const {
  return {fmt::format("rank {} {}: {}", rank, refusal ? "refused" : "failed", message), refusal};
}

void AbortReason::Throw(const std::string& operation) const {
  const std::string text = operation + ": " + message;
  if (refusal) throw UsageError(text);
  throw PeerError(text);
}

std::vector<std::byte> AbortReason::ToBytes() const {
  std::vector<std::byte> bytes = {static_cast<std::byte>(refusal)};
  for (const char c : message) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

AbortReason AbortReason::FromBytes(std::span<const std::byte> bytes) {
  AbortReason reason;
  if (bytes.empty()) return reason;
  reason.refusal = bytes[0] != std::byte{0};
  for (const std::byte b : bytes.subspan(1)) reason.message.push_back(static_cast<char>(b));
  return reason;
}

}  // namespace antiphon::comm
