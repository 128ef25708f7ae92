#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sndfile.h>

#include <cmath>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "feat/audio.h"
#include "feat/mpeg_frames.h"
#include "temporary_folder.h"

namespace antiphon::feat {
namespace {

constexpr int kMp3Hz = 16000;

// Four seconds of noise, then four of silence: the first frames are far larger than the last.
std::vector<float> NoiseAndSilence(int channels) {
  Rng random(1);
  std::vector<float> samples(static_cast<size_t>(8 * kMp3Hz * channels));
  for (size_t i = 0; i < samples.size() / 2; ++i) samples[i] = 0.2F * static_cast<float>(random.Normal());
  return samples;
}

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

class Mp3 : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    SF_INFO info{};
    info.samplerate = kMp3Hz;
    info.channels = GetParam();
    info.format = SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III;
    SNDFILE* file = sf_open(path_.c_str(), SFM_WRITE, &info);
    if (file == nullptr) GTEST_SKIP() << "this libsndfile writes no MP3: " << sf_strerror(nullptr);
    int mode = SF_BITRATE_MODE_VARIABLE;
    sf_command(file, SFC_SET_BITRATE_MODE, &mode, sizeof mode);
    const std::vector<float> samples = NoiseAndSilence(GetParam());
    sf_writef_float(file, samples.data(), static_cast<sf_count_t>(samples.size()) / GetParam());
    sf_close(file);
    tagged_ = ReadFile(path_);
    ASSERT_TRUE(FindMpegFrames(Bytes(tagged_)).tells_length);
    // All but the frame with the length.
    plain_ = tagged_.substr(tagged_.find(tagged_.substr(0, 2), 100));
    ASSERT_FALSE(FindMpegFrames(Bytes(plain_)).tells_length);
  }

  std::filesystem::path Put(const std::string& bytes) const {
    WriteFileAtomically(path_, bytes);
    return path_;
  }

  const testing::TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_ / "a.mp3";
  std::string tagged_, plain_;
};

TEST_P(Mp3, IsReadToItsEndIfNothingSaysHowLongItIs) {
  constexpr double kFrames = 3 * 576;  // of the encoder's delay, which only the tag tells
  std::string stopped = tagged_;       // its encoder: the tag's number of frames is still 0
  stopped.replace(std::min(tagged_.find("Xing"), tagged_.find("Info")) + 8, 4, 4, '\0');
  const std::string names = "ID3\x04" + std::string(5, '\0') + "\x14" + std::string(20, '\0');
  for (const std::string& bytes : {tagged_, plain_, stopped, names + plain_ + "TAG" + std::string(125, ' ')}) {
    const Waveform wave = ReadAudio(Put(bytes));
    EXPECT_NEAR(static_cast<double>(wave.samples.size()), 8 * kMp3Hz, kFrames);
    EXPECT_EQ(ProbeAudio(path_).num_samples, std::ssize(wave.samples));
    EXPECT_EQ(ReadAudio(Bytes(bytes), "a.mp3").samples, wave.samples);
    // The noise is where it was.
    const auto loudest = [&](double begin_s, double end_s) {
      float peak = 0;
      for (auto i = static_cast<size_t>(begin_s * kMp3Hz); i < static_cast<size_t>(end_s * kMp3Hz); ++i)
        peak = std::max(peak, std::abs(wave.samples[i]));
      return peak;
    };
    EXPECT_GT(loudest(3.5, 3.9), 3000);
    EXPECT_LT(loudest(4.2, 7.8), 100);
    EXPECT_EQ(ReadAudio(path_, AudioSelection{.start_s = 4.5, .end_s = 7.5}).samples.size(), 3U * kMp3Hz);
  }
}

TEST_P(Mp3, HasWhatIsThereOfIt) {
  const std::string half = plain_.substr(0, plain_.size() / 2);
  const size_t samples = ReadAudio(Put(half)).samples.size();
  EXPECT_GT(samples, 1U * kMp3Hz);
  EXPECT_LT(samples, 4U * kMp3Hz);
  // What is no frame, in the middle, costs a frame or two: names and a picture, as of a file put behind another one.
  const size_t middle = plain_.find(plain_.substr(0, 2), plain_.size() / 4);
  std::string damaged = plain_;
  damaged.insert(middle, std::string(5000, '\x55'));
  EXPECT_GT(ReadAudio(Put(damaged)).samples.size(), 7.5 * kMp3Hz);
  damaged = plain_;
  damaged[middle] = damaged[middle + 1] = '\0';
  EXPECT_GT(ReadAudio(Put(damaged)).samples.size(), 7.5 * kMp3Hz);
}

// Files put one behind the other, the first of which tells how long it is itself.
TEST_P(Mp3, IsAllThatWasPutTogether) {
  EXPECT_NEAR(static_cast<double>(ReadAudio(Put(tagged_ + tagged_)).samples.size()), 16.0 * kMp3Hz, 8 * 576);
}

// As the samples of a WAV file.
TEST_P(Mp3, IsReadInAContainer) {
  const auto number = [](uint32_t value, size_t bytes) {
    std::string text;
    for (size_t i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
    return text;
  };
  const auto channels = static_cast<uint32_t>(GetParam());
  const std::string format = number(0x55, 2) + number(channels, 2) + number(kMp3Hz, 4) + number(8000, 4) +
                             number(1, 2) + number(0, 2) + number(12, 2) + number(1, 2) + number(2, 4) +
                             number(288, 2) + number(1, 2) + number(0, 2);
  const std::string fact = "fact" + number(4, 4) + number(8 * kMp3Hz, 4);
  const auto wav = [&](const std::string& sound, size_t told) {
    const std::string chunks = "WAVEfmt " + number(static_cast<uint32_t>(format.size()), 4) + format + fact + "data" +
                               number(static_cast<uint32_t>(told), 4);
    return "RIFF" + number(static_cast<uint32_t>(chunks.size() + told), 4) + chunks + sound;
  };
  const size_t even = plain_.size() / 2 * 2;
  const Waveform wave = ReadAudio(Put(wav(plain_.substr(0, even), even)));
  EXPECT_NEAR(static_cast<double>(wave.samples.size()), 8 * kMp3Hz, 3 * 576);
  EXPECT_THROW(ReadAudio(Put(wav(plain_.substr(0, even / 2), even))), InputError);
}

INSTANTIATE_TEST_SUITE_P(Channels, Mp3, ::testing::Values(1, 2));

// Of frames without sound: `second` to `fourth` are the bytes of their headers.
std::string Frames(int count, size_t bytes, char second, char third, char fourth) {
  std::string frames;
  for (int i = 0; i < count; ++i) {
    const std::string header = {'\xff', second, third, fourth};
    frames += header + std::string(bytes - header.size(), '\0');
  }
  return frames;
}

struct Kind {
  size_t bytes;  // 144 or 72 times the rate by Hz
  char second, third, fourth;
};
constexpr Kind kKinds[] = {
    {417, '\xfb', '\x90', '\xc0'},   // MPEG 1, 128 kbit/s, 44.1 kHz, mono
    {418, '\xfb', '\x92', '\x40'},   // the same padded, stereo
    {1440, '\xfb', '\xe8', '\xc0'},  // 320 kbit/s, 32 kHz
    {288, '\xf3', '\x88', '\xc0'},   // MPEG 2, 64 kbit/s, 16 kHz
    {104, '\xe3', '\x20', '\xc0'},   // MPEG 2.5, 16 kbit/s, 11.025 kHz
};

// Of ID3v2, with a footer.
const std::string kTag = std::string("ID3\x04\0\x10\0\0\0\x02xx", 12) + std::string(10, 'f');

TEST(MpegFrames, AreCounted) {
  for (const Kind& kind : kKinds) {
    const std::string frames = Frames(7, kind.bytes, kind.second, kind.third, kind.fourth);
    const auto found = FindMpegFrames(Bytes(frames));
    EXPECT_EQ(found.count, 7) << kind.bytes;
    EXPECT_EQ(found.runs.size(), 1U);
    // A frame made for them is of their kind, and tells that they are seven.
    const std::string with_length = MpegLengthFrame(Bytes(frames), 7) + frames;
    EXPECT_TRUE(FindMpegFrames(Bytes(with_length)).tells_length);
    EXPECT_FALSE(FindMpegFrames(Bytes(with_length + with_length)).tells_length);
    EXPECT_EQ(FindMpegFrames(Bytes(with_length + with_length)).count, 15);  // one of them without sound
    // Cut short: without the last; behind a tag with a footer; with what is no frame between.
    EXPECT_EQ(FindMpegFrames(Bytes(frames.substr(0, frames.size() - 1))).count, 6);
    EXPECT_EQ(FindMpegFrames(Bytes(kTag + frames)).count, 7);
    const std::string parted = frames + std::string(3000, 'x') + frames;
    EXPECT_EQ(FindMpegFrames(Bytes(parted)).runs.size(), 2U);
    EXPECT_EQ(FindMpegFrames(Bytes(parted)).count, 14);
  }
}

TEST(MpegFrames, OfASecondSoundAreNone) {
  for (const Kind& first : kKinds) {
    for (const Kind& second : kKinds) {
      const std::string one = Frames(3, first.bytes, first.second, first.third, first.fourth);
      const std::string other = Frames(3, second.bytes, second.second, second.third, second.fourth);
      const std::string old_tag = "TAG" + std::string(125, ' ');
      for (const std::string& between : {std::string(), old_tag, old_tag + kTag, std::string("damage")}) {
        EXPECT_EQ(FindMpegFrames(Bytes(one + between + other)).is_one_sound, &first == &second)
            << first.bytes << " " << second.bytes << " " << between;
      }
    }
  }
}

TEST(MpegFrames, WithoutSoundAreLeftOut) {
  std::string frames = Frames(7, 417, '\xfb', '\x90', '\xc0');
  frames.replace(4 + 32, 4, "VBRI");
  EXPECT_EQ(FindMpegFrames(Bytes(frames)).count, 6);
  frames = Frames(7, 417, '\xfb', '\x90', '\xc0');
  frames.replace(4 + 17, 4, "Xing");  // says nothing more
  EXPECT_EQ(FindMpegFrames(Bytes(frames)).count, 6);
  EXPECT_EQ(FindMpegFrames(Bytes(std::string(5000, '\xff'))).count, 0);
  EXPECT_EQ(FindMpegFrames(Bytes(Frames(7, 417, '\xfd', '\x90', '\xc0'))).count, 0) << "layer II";
  EXPECT_EQ(FindMpegFrames({}).count, 0);
}

}  // namespace
}  // namespace antiphon::feat
