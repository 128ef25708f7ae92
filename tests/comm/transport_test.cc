// What travels between processes is whole, or an error.
#include "comm/transport.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace antiphon::comm {
namespace {

TEST(Envelope, ComesOutAsItWentInForEverySize) {
  for (size_t size = 0; size < 40; ++size) {
    const std::vector<std::byte> bytes(size, std::byte{0x5a});
    Envelope envelope;
    envelope.source = 3;
    envelope.destination = 1;
    envelope.step = 12;
    std::vector<std::byte> message = SealEnvelope(envelope, bytes);
    EXPECT_EQ(message.size() % kMessageUnit, 0u);
    const Envelope opened = OpenEnvelope(3, message);
    EXPECT_EQ(message, bytes);
    EXPECT_EQ(opened.source, 3);
    EXPECT_EQ(opened.destination, 1);
    EXPECT_EQ(opened.step, 12);
  }
}

TEST(Envelope, AnyFlippedBitIsNoticed) {
  const std::vector<std::byte> bytes(24, std::byte{7});
  Envelope envelope;
  envelope.size = bytes.size();
  const std::vector<std::byte> whole = SealEnvelope(envelope, bytes);
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::vector<std::byte> message = whole;
    message[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_THROW(OpenEnvelope(0, message), PeerError) << "bit " << bit;
  }
}

TEST(Envelope, AMessageCutShortIsNoticed) {
  const std::vector<std::byte> whole = SealEnvelope(Envelope(), std::vector<std::byte>(100));
  for (size_t size = 0; size < whole.size(); size += kMessageUnit) {
    std::vector<std::byte> message(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THROW(OpenEnvelope(0, message), PeerError) << size;
  }
}

}  // namespace
}  // namespace antiphon::comm
