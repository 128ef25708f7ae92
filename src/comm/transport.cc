#include "comm/transport.h"

#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "comm/fault_injection.h"

namespace antiphon::comm {
namespace {

uint64_t ChecksumOf(Envelope envelope, std::span<const std::byte> bytes) {
  envelope.checksum = Checksum(bytes);
  return Checksum(std::as_bytes(std::span(&envelope, 1)));
}

}  // namespace

std::vector<std::byte> SealEnvelope(Envelope envelope, std::span<const std::byte> bytes) {
  envelope.remainder = static_cast<uint32_t>(bytes.size() % kMessageUnit);
  envelope.checksum = ChecksumOf(envelope, bytes);
  const size_t padded = (bytes.size() + kMessageUnit - 1) / kMessageUnit * kMessageUnit;
  std::vector<std::byte> message;
  message.reserve(padded + sizeof(Envelope));
  message.assign(bytes.begin(), bytes.end());
  message.resize(padded + sizeof(Envelope));
  std::memcpy(message.data() + padded, &envelope, sizeof(Envelope));
  if (TakeDamage()) message.front() ^= std::byte{1};
  return message;
}

Envelope OpenEnvelope(int process, std::vector<std::byte>& message) {
  Envelope envelope;
  if (message.size() >= sizeof(Envelope)) {
    const size_t padded = message.size() - sizeof(Envelope);
    std::memcpy(&envelope, message.data() + padded, sizeof(Envelope));
    const size_t padding = envelope.remainder == 0 ? 0 : kMessageUnit - envelope.remainder;
    if (envelope.remainder < kMessageUnit && padding <= padded) {
      message.resize(padded - padding);
      Envelope unsigned_envelope = envelope;
      unsigned_envelope.checksum = 0;
      if (envelope.magic == Envelope().magic && envelope.checksum == ChecksumOf(unsigned_envelope, message)) {
        return envelope;
      }
    }
  }
  Throw<PeerError>(
      "a message of {} bytes from process {} (as far as readable: rank {} to rank {}, step {}) arrived damaged: its "
      "checksum is wrong. Check network and memory of that machine",
      message.size(), process, envelope.source, envelope.destination, envelope.step);
}

}  // namespace antiphon::comm
