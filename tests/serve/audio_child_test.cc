// Decoders that go wrong, in place of `antiphon samples`: the server is told why, and nothing of them stays.
#include "serve/net/audio_child.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/file.h"
#include "temporary_folder.h"

namespace antiphon::serve {
namespace {

class AudioChildren : public ::testing::Test {
 protected:
  /// A decoder that is this script.
  std::shared_ptr<AudioChild> Start(asio::io_context& io, const std::string& script) const {
    const std::string program = folder_ / "decoder";
    WriteFileAtomically(program, "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    return std::make_shared<AudioChild>(io.get_executor(), program,
                                        FileDescriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)), LimitOptions());
  }
  AudioPiece FirstPiece(const std::string& script) const {
    asio::io_context io;
    const auto child = Start(io, script);
    std::optional<AudioPiece> piece;
    child->Read([&](AudioPiece read) { piece = std::move(read); });
    io.run();
    return piece.value();
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(AudioChildren, SayWhatIsNoHeader) {
  for (const char* header :
       {R"({"rate": "fast"})", R"({"rate": null})", R"({"rate": 1e300})", R"({"rate": 8000.5})", R"({"rate": 0})",
        R"({"rate": -8000})", R"({"rate": 4294975296})", R"({})", R"([8000])", "8000", "hello"}) {
    const AudioPiece piece = FirstPiece("echo '" + std::string(header) + "'; printf abcd");
    EXPECT_THAT(piece.error, ::testing::HasSubstr("no header")) << header;
    EXPECT_TRUE(piece.samples.empty());
  }
  const AudioPiece piece = FirstPiece(R"(echo '{"rate": 8000}'; printf abcd)");
  EXPECT_EQ(piece.error, "");
  EXPECT_EQ(piece.sample_rate_hz, 8000);
  EXPECT_EQ(piece.samples.size(), 1U);
}

TEST_F(AudioChildren, MaySayMoreThanAPipeHolds) {
  const AudioPiece piece = FirstPiece(R"(head -c 200000 /dev/zero >&2; echo '{"rate": 8000}'; printf abcd)");
  EXPECT_EQ(piece.error, "");
  EXPECT_EQ(piece.samples.size(), 1U);
  const AudioPiece none =
      FirstPiece("head -c 200000 /dev/zero >&2; echo 'antiphon: error: it is a picture' >&2; exit 1");
  EXPECT_EQ(none.error, "it is a picture");
  // As `antiphon samples` itself says it.
  const AudioPiece own = FirstPiece(
      "printf \"antiphon: error: antiphon samples:\\n  '/dev/stdin' is cut short: '/dev/stdin' is: file:/dev/stdin: "
      "bad\\n\" >&2; "
      "exit 1");
  EXPECT_EQ(own.error, "the recording is cut short: the recording is: bad");
}

TEST_F(AudioChildren, GoWithWhoeverAskedForThem) {
  asio::io_context io;
  auto child = Start(io, R"(echo '{"rate": 8000}'; printf abcd; exec sleep 600)");
  std::optional<AudioPiece> piece;
  child->Read([&](AudioPiece read) { piece = std::move(read); });
  while (!piece && io.run_one() > 0) {
  }
  ASSERT_TRUE(piece.has_value());
  EXPECT_EQ(piece->error, "");
  // By now only its messages are being read.
  const std::weak_ptr<AudioChild> left = child;
  child.reset();
  ASSERT_TRUE(left.expired());
  io.run();
}

TEST_F(AudioChildren, LeaveNothingRunningIfTheyDieAlone) {
  const std::string life = folder_ / "life";
  ASSERT_EQ(::mkfifo(life.c_str(), 0600), 0);
  const FileDescriptor alive(::open(life.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  // What the decoder starts keeps the pipe open for as long as it lives; the decoder is killed as by want of memory.
  const AudioPiece piece =
      FirstPiece("exec 3> '" + life + "'; sleep 600 1>&3 2>&3 & exec 3>&-; echo x >> '" + life + "'; kill -KILL $$");
  EXPECT_THAT(piece.error, ::testing::HasSubstr("more memory or time"));
  pollfd ended{.fd = alive.get(), .events = 0, .revents = 0};  // no writer is left
  EXPECT_EQ(::poll(&ended, 1, /*timeout_ms=*/60000), 1);
}

}  // namespace
}  // namespace antiphon::serve
