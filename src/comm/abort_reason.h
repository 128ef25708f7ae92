// Why a rank ends the run of all ranks, and what the others throw for it.
//
// A refusal (UsageError: an impossible plan) is one for all ranks, so that every process of a run ends with the same
// status, whichever rank found it first. All else is the failure of a peer.
#pragma once

#include <cstddef>
#include <exception>
#include <span>
#include <string>
#include <vector>

namespace antiphon::comm {

struct AbortReason {
  std::string message;
  bool refusal = false;

  static AbortReason Of(const std::exception& error);
  /// The same with the rank in front, as the others are to see it.
  AbortReason From(int rank) const;
  /// UsageError or PeerError: `operation`, which could not be finished, and the message.
  [[noreturn]] void Throw(const std::string& operation) const;

  std::vector<std::byte> ToBytes() const;
  static AbortReason FromBytes(std::span<const std::byte> bytes);
};

}  // namespace antiphon::comm
