// Carries what the ranks of this process say to ranks of other processes.
//
// A message is an Envelope and its bytes. Hub (comm/hub.h) gives them out to remote ranks and takes those that arrive.
// Order: messages between one pair of processes arrive in the order sent. Threads: Send may be called from any; what
// arrives is delivered by a thread of the transport. Errors: PeerError when a message cannot be carried any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace antiphon::comm {

enum class MessageKind : uint32_t { kLetter, kAccumulate, kGet, kAbort };

/// Travels behind the bytes of every message.
struct Envelope {
  uint32_t magic = 0x41504d47;
  MessageKind kind = MessageKind::kLetter;
  uint32_t world = 0;  // which world of ranks, counted by all processes alike
  int32_t source = 0;
  int32_t destination = 0;
  int32_t tag = 0;      // of a window for the one-sided operations
  uint64_t offset = 0;  // in the window
  uint64_t size = 0;    // of the bytes; for kGet, the values wanted
  float scale = 1;
  uint32_t remainder = 0;  // of the bytes' number by kMessageUnit
  int64_t step = 0;
  uint64_t checksum = 0;  // of the bytes and of the fields above
};
static_assert(sizeof(Envelope) == 64);

/// Messages are whole numbers of these, in bytes.
inline constexpr size_t kMessageUnit = 8;
/// The bytes as they travel: padded, with the envelope and its checksum behind.
std::vector<std::byte> SealEnvelope(Envelope envelope, std::span<const std::byte> bytes);
/// Cuts the envelope off again. PeerError that names ranks and step if the message from `process` was damaged.
Envelope OpenEnvelope(int process, std::vector<std::byte>& message);

class Transport {
 public:
  virtual ~Transport() = default;
  /// Takes a copy of the bytes and returns at once.
  virtual void Send(const Envelope& envelope, std::span<const std::byte> bytes) = 0;
  /// A sign that a local rank waits, so that arrivals should be looked for eagerly; −1: no longer.
  virtual void Waiting(int change) = 0;
  /// Whether those that are left can go on when a process dies.
  virtual bool survives_losses() const { return false; }
  /// Returns when all that was sent has left, or after `seconds`.
  virtual void Drain(double seconds) = 0;
};

}  // namespace antiphon::comm
