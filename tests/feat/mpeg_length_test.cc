#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sndfile.h>

#include <cmath>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

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
    const size_t begin = FindMpegFrames(Bytes(tagged_)).begin;
    const std::string sync = tagged_.substr(begin, 2);
    plain_ = tagged_.substr(tagged_.find(sync, begin + 100));
    ASSERT_FALSE(FindMpegFrames(Bytes(plain_)).tells_length);
  }

  static std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }
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
  for (const std::string& bytes : {tagged_, plain_, "ID3\x04" + std::string(5, '\0') + "\x14" + std::string(20, '\0') + plain_}) {
    const Waveform wave = ReadAudio(Put(bytes));
    EXPECT_NEAR(static_cast<double>(wave.samples.size()), 8 * kMp3Hz, kFrames);
    EXPECT_NEAR(ProbeAudio(path_).num_samples, wave.samples.size(), 0);
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
  // Damage in the middle costs what is damaged.
  std::string damaged = plain_;
  damaged.replace(plain_.size() / 4, 40, 40, '\x55');
  EXPECT_GT(ReadAudio(Put(damaged)).samples.size(), 7U * kMp3Hz);
}

INSTANTIATE_TEST_SUITE_P(Channels, Mp3, ::testing::Values(1, 2));

}  // namespace
}  // namespace antiphon::feat
