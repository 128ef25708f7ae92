// Decoders that go wrong, in place of `antiphon samples`: the server is told why.
#include "serve/net/audio_child.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>

#include "base/file.h"
#include "temporary_folder.h"

namespace antiphon::serve {
namespace {

class AudioChildren : public ::testing::Test {
 protected:
  /// The first piece of a decoder that is this script.
  AudioPiece FirstPiece(const std::string& script) {
    const std::string program = folder_ / "decoder";
    WriteFileAtomically(program, "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    asio::io_context io;
    const auto child = std::make_shared<AudioChild>(
        io.get_executor(), program, FileDescriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)), LimitOptions());
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

}  // namespace
}  // namespace antiphon::serve
