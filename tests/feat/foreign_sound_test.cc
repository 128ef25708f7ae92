// Sound that ffmpeg decodes: the samples of the file that it was made of, in every way in which they can be asked for.
#include "feat/foreign_sound.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/child_process.h"
#include "base/error.h"
#include "base/file.h"
#include "base/finally.h"
#include "base/random.h"
#include "fake_program.h"
#include "faults/small_disk.h"
#include "feat/audio.h"
#include "temporary_folder.h"
#include "without_programs.h"

namespace antiphon::feat {
namespace {

using antiphon::testing::FakeProgram;
using antiphon::testing::SmallDisk;
using antiphon::testing::TemporaryFolder;
using antiphon::testing::WithoutPrograms;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kRateHz = 8000;

std::string Refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

class ForeignSoundTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!ForeignSoundIsRead()) GTEST_SKIP() << "ffmpeg is not installed";
    Rng rng(4);
    wave_ = {std::vector<float>(20 * kRateHz + 1), kRateHz};
    for (float& x : wave_.samples) x = static_cast<float>(std::lrint(1000 * rng.Normal()));
    WriteWav(folder_ / "a.wav", wave_);
    // Lossless.
    Run({"-i", (folder_ / "a.wav").string(), "-c:a", "alac", m4a().string()});
  }
  static void Run(const std::vector<std::string>& arguments) {
    std::vector<std::string> words = {"ffmpeg", "-nostdin", "-v", "error"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    ASSERT_EQ(RunProgram(words), 0);
  }
  std::filesystem::path m4a() const { return folder_ / "a.m4a"; }

  TemporaryFolder folder_;
  Waveform wave_;
};

TEST_F(ForeignSoundTest, IsThatOfTheFileItWasMadeOf) {
  EXPECT_TRUE(IsForeignSound(m4a()));
  EXPECT_FALSE(IsForeignSound(folder_ / "a.wav"));
  const Waveform read = ReadAudio(m4a());
  EXPECT_EQ(read.samples, wave_.samples);
  EXPECT_EQ(read.sample_rate_hz, kRateHz);
  AudioReader reader(m4a());
  EXPECT_EQ(reader.sample_rate_hz(), kRateHz);
  std::vector<float> joined;
  int pieces = 0;
  for (std::vector<float> piece; reader.Read(piece); ++pieces) joined.insert(joined.end(), piece.begin(), piece.end());
  EXPECT_GE(pieces, 2);
  EXPECT_EQ(joined, wave_.samples);
}

TEST_F(ForeignSoundTest, HasTheLengthThatCountingFinds) {
  EXPECT_EQ(ProbeAudioFormat(m4a()).num_samples, kUnknownLength);
  AudioReader reader(m4a(), {.start_s = 1.5});
  EXPECT_NEAR(reader.duration_s(), 18.5, 1e-3);
  const AudioInfo info = ProbeAudio(m4a());
  EXPECT_EQ(info.num_samples, std::ssize(wave_.samples));
  EXPECT_EQ(info.num_channels, 1);
  EXPECT_EQ(ProbeAudioFormat(m4a()).num_samples, info.num_samples) << "it was counted";
  // Another file of that name is counted anew.
  wave_.samples.resize(5000);
  WriteWav(folder_ / "b.wav", wave_);
  Run({"-y", "-i", (folder_ / "b.wav").string(), "-c:a", "alac", m4a().string()});
  EXPECT_EQ(ProbeAudio(m4a()).num_samples, 5000);
}

// The same answers whether its length is known or not.
TEST_F(ForeignSoundTest, IsReadInPartsLikeAnyOther) {
  for (const bool counted : {false, true}) {
    SCOPED_TRACE(counted ? "counted" : "of unknown length");
    const std::filesystem::path file = folder_ / (counted ? "counted.m4a" : "new.m4a");
    const auto read = [&](const AudioSelection& selection) {
      std::filesystem::copy_file(m4a(), file, std::filesystem::copy_options::overwrite_existing);
      if (counted) ProbeAudio(file);
      return ReadAudio(file, selection);
    };
    for (const AudioSelection& selection :
         {AudioSelection{.start_s = 1.25, .end_s = 9.5}, AudioSelection{.start_s = 15},
          AudioSelection{.start_s = 19.5, .end_s = 20.3}}) {
      EXPECT_EQ(read(selection).samples, ReadAudio(folder_ / "a.wav", selection).samples);
    }
    for (const AudioSelection& wrong :
         {AudioSelection{.start_s = 19, .end_s = 21}, AudioSelection{.start_s = 25}, AudioSelection{.channel = 1},
          AudioSelection{.start_s = -1}, AudioSelection{.start_s = 3, .end_s = 2}}) {
      std::string as_wav = Refusal([&] { ReadAudio(folder_ / "a.wav", wrong); });
      ASSERT_NE(as_wav, "");
      const std::string wav = (folder_ / "a.wav").string();
      as_wav.replace(as_wav.find(wav), wav.size(), file.string());
      EXPECT_EQ(Refusal([&] { read(wrong); }), as_wav);
    }
  }
}

TEST_F(ForeignSoundTest, TakesNoRoomOnDisk) {
  SmallDisk disk(64);  // KiB; the samples take 320 000 bytes
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small disk needs root";
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("TMPDIR", disk.path().c_str(), 1);
  const std::vector<float> samples = ReadAudio(m4a()).samples;
  const std::string refusal = Refusal([&] { UnpackedSound unpacked(m4a()); });
  before == nullptr ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", kept.c_str(), 1);
  EXPECT_EQ(samples, wave_.samples);
  EXPECT_THAT(refusal, AllOf(HasSubstr("takes 0.3 MB"), HasSubstr(disk.path().string()), HasSubstr("TMPDIR")));
}

TEST_F(ForeignSoundTest, CanBeUnpacked) {
  const UnpackedSound unpacked(m4a());
  EXPECT_EQ(ReadAudio(unpacked.path()).samples, wave_.samples);
  EXPECT_FALSE(IsForeignSound(unpacked.path()));
}

TEST_F(ForeignSoundTest, IsRefusedWithTheReason) {
  WriteFileAtomically(folder_ / "text.m4a", "this is no sound at all, but some text that goes on");
  EXPECT_THAT(Refusal([&] { ReadAudio(folder_ / "text.m4a"); }),
              AllOf(HasSubstr("text.m4a' cannot be read as audio"), HasSubstr("Neither can ffmpeg read it")));
  Run({"-f", "lavfi", "-i", "color=size=32x32:rate=5:duration=1", "-c:v", "mpeg4", (folder_ / "film.mp4").string()});
  EXPECT_THAT(Refusal([&] { ProbeAudio(folder_ / "film.mp4"); }), HasSubstr("has no sound"));
  const std::string bytes = ReadFile(m4a());
  EXPECT_THAT(Refusal([&] { ReadAudio(std::as_bytes(std::span(bytes)), "a.m4a"); }), HasSubstr("cannot be read"));
  const WithoutPrograms nothing;
  EXPECT_FALSE(ForeignSoundIsRead());
  EXPECT_THAT(Refusal([&] { ReadAudio(m4a()); }), HasSubstr("ffmpeg, which may be able to read it, is not installed"));
  EXPECT_EQ(ReadAudio(folder_ / "a.wav").samples, wave_.samples);
}

TEST_F(ForeignSoundTest, EndsWhenSomebodyAsksToStop) {
  AudioReader reader(m4a());
  std::vector<float> piece;
  ASSERT_TRUE(reader.Read(piece));
  RequestCancel();
  EXPECT_THROW(
      {
        while (reader.Read(piece)) {
        }
      },
      Cancelled);
  ResetCancel();
}

TEST_F(ForeignSoundTest, IsReadToItsEndForWhoStopsLater) {
  RequestCancel();
  const Finally reset([] { ResetCancel(); });
  {
    const PatientReading patient;
    EXPECT_EQ(ReadAudio(m4a()).samples, wave_.samples);
  }
  EXPECT_THROW(ReadAudio(m4a()), Cancelled);
}

TEST_F(ForeignSoundTest, OfWhoStopsLaterSignalsToOurGroupDoNotReachFfmpeg) {
  const FakeProgram fake(folder_ / "bin", "ffmpeg",
                         "read -r words < /proc/$$/stat; set -- $words; echo \"group $5.\" >&2; exit 1");
  const auto read = [&] { return Refusal([&] { ReadAudio(m4a()); }); };
  const std::string ours = fmt::format("says: group {}.", ::getpgrp());
  EXPECT_THAT(read(), HasSubstr(ours));
  const PatientReading patient;
  EXPECT_THAT(read(), AllOf(HasSubstr("says: group "), ::testing::Not(HasSubstr(ours))));
  // What stops programs may have found it nevertheless.
  RequestCancel();
  const Finally reset([] { ResetCancel(); });
  EXPECT_THROW(ReadAudio(m4a()), Cancelled);
}

}  // namespace
}  // namespace antiphon::feat
