#include "feat/audio.h"

#include <gtest/gtest.h>
#include <sndfile.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "feat/zero_spans.h"
#include "reference.h"
#include "temporary_folder.h"

namespace antiphon::feat {
namespace {

using antiphon::testing::TemporaryFolder;

// Writes interleaved samples (±1) in any format of libsndfile.
void WriteSound(const std::filesystem::path& path, const std::vector<float>& samples, int channels, int rate,
                int format) {
  SF_INFO info{};
  info.samplerate = rate;
  info.channels = channels;
  info.format = format;
  SNDFILE* file = sf_open(path.c_str(), SFM_WRITE, &info);
  ASSERT_NE(file, nullptr) << sf_strerror(nullptr);
  sf_writef_float(file, samples.data(), static_cast<sf_count_t>(samples.size()) / channels);
  sf_close(file);
}

// The message of the InputError that `body` throws.
template <class F>
std::string ErrorOf(F&& body) {
  try {
    body();
  } catch (const InputError& e) {
    return e.what();
  }
  ADD_FAILURE() << "no InputError";
  return "";
}

std::vector<float> Scaled(std::vector<float> x, float factor) {
  for (float& v : x) v *= factor;
  return x;
}

TEST(Audio, SixteenBitWavIsExact) {
  const TemporaryFolder folder;
  Waveform wave{{0, 1, -1, 32767, -32768, 1234}, 8000};
  WriteWav(folder / "a.wav", wave);
  const Waveform back = ReadAudio(folder / "a.wav");
  EXPECT_EQ(back.samples, wave.samples);
  EXPECT_EQ(back.sample_rate_hz, 8000);
  const std::string bytes = ReadFile(folder / "a.wav");
  EXPECT_EQ(ReadAudio(std::as_bytes(std::span(bytes)), "memory").samples, wave.samples);
}

TEST(Audio, ReadsManyFormatsOnOneScale) {
  const TemporaryFolder folder;
  const std::vector<float> x = Scaled(Tone(48000, 440, 0.5, 48000), 1.0f);
  const std::pair<int, double> formats[] = {
      {SF_FORMAT_WAV | SF_FORMAT_PCM_24, 1e-2}, {SF_FORMAT_WAV | SF_FORMAT_FLOAT, 1e-2},
      {SF_FORMAT_WAV | SF_FORMAT_ULAW, 700},    {SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 1},
      {SF_FORMAT_OGG | SF_FORMAT_VORBIS, 700},  {SF_FORMAT_OGG | SF_FORMAT_OPUS, 2000},
      {SF_FORMAT_AIFF | SF_FORMAT_PCM_16, 1},   {SF_FORMAT_WAV | SF_FORMAT_PCM_U8, 300}};
  for (const auto& [format, tolerance] : formats) {
    WriteSound(folder / "x", x, 1, 48000, format);
    const Waveform wave = ReadAudio(folder / "x");
    ASSERT_EQ(wave.sample_rate_hz, 48000);
    ASSERT_NEAR(static_cast<double>(wave.samples.size()), 48000.0, 1.0) << std::hex << format;
    double worst = 0;
    for (size_t i = 4800; i < 43200; ++i) worst = std::max<double>(worst, std::fabs(wave.samples[i] - 32768 * x[i]));
    EXPECT_LE(worst, tolerance) << std::hex << format;
  }
}

TEST(Audio, ChoosesOrMixesChannels) {
  const TemporaryFolder folder;
  std::vector<float> stereo;
  for (int i = 0; i < 100; ++i) {
    stereo.push_back(0.5f);
    stereo.push_back(-0.25f);
  }
  WriteSound(folder / "s.wav", stereo, 2, 16000, SF_FORMAT_WAV | SF_FORMAT_PCM_16);
  EXPECT_EQ(ReadAudio(folder / "s.wav", 0).samples[50], 16384.0f);
  EXPECT_EQ(ReadAudio(folder / "s.wav", 1).samples[50], -8192.0f);
  EXPECT_EQ(ReadAudio(folder / "s.wav").samples[50], 4096.0f);
  EXPECT_NE(ErrorOf([&] { ReadAudio(folder / "s.wav", 2); }).find("channel 2"), std::string::npos);
}

TEST(Audio, ReadsSegmentsAsPartsOfTheWhole) {
  const TemporaryFolder folder;
  const std::vector<float> x = Scaled(WhiteNoise(32000, 0.1, 1), 1.0f);
  for (const int format : {SF_FORMAT_WAV | SF_FORMAT_PCM_16, SF_FORMAT_FLAC | SF_FORMAT_PCM_16}) {
    WriteSound(folder / "x", x, 1, 16000, format);
    const Waveform whole = ReadAudio(folder / "x");
    const Waveform part = ReadAudio(folder / "x", {.start_s = 0.5, .end_s = 1.25});
    ASSERT_EQ(part.samples.size(), 12000u);
    EXPECT_TRUE(std::equal(part.samples.begin(), part.samples.end(), whole.samples.begin() + 8000));
    // A little past the end is cut back, far past it is an error, as is a range that holds nothing.
    EXPECT_EQ(ReadAudio(folder / "x", {.start_s = 1.5, .end_s = 2.2}).samples.size(), 8000u);
    EXPECT_NE(ErrorOf([&] { ReadAudio(folder / "x", {.start_s = 1.5, .end_s = 3.0}); }).find("lasts 2.000 s"),
              std::string::npos);
    ErrorOf([&] { ReadAudio(folder / "x", {.start_s = 2.5}); });
    ErrorOf([&] { ReadAudio(folder / "x", {.start_s = -1.0}); });
    ErrorOf([&] { ReadAudio(folder / "x", {.start_s = 1.0, .end_s = 0.5}); });
  }
}

TEST(Audio, RefusesBadFilesWithTheirName) {
  const TemporaryFolder folder;
  EXPECT_NE(ErrorOf([&] { ReadAudio(folder / "missing.wav"); }).find("missing.wav"), std::string::npos);
  ErrorOf([&] { ReadAudio(folder.path()); });
  WriteFileAtomically(folder / "zero.wav", "");
  EXPECT_NE(ErrorOf([&] { ReadAudio(folder / "zero.wav"); }).find("empty"), std::string::npos);
  WriteFileAtomically(folder / "text.wav", "this is no audio at all, but some text that goes on");
  EXPECT_NE(ErrorOf([&] { ReadAudio(folder / "text.wav"); }).find("text.wav"), std::string::npos);
  WriteWav(folder / "none.wav", {{}, 16000});
  EXPECT_NE(ErrorOf([&] { ReadAudio(folder / "none.wav"); }).find("no samples"), std::string::npos);
}

// libsndfile has one place for the last reason, whichever thread it is of.
TEST(Audio, TellsEachThreadItsOwnReason) {
  const TemporaryFolder folder;
  WriteWav(folder / "whole.wav", {{1, 2, 3}, 16000});
  const std::vector<std::string> files = {"this is no audio at all, but some text that goes on",
                                          ReadFile(folder / "whole.wav").substr(0, 30), ".snd\0\0\0\x18",
                                          std::string("FORM\0\0\0\x10") + "AIFFCOMM"};
  const auto reason = [&](size_t i) {
    return ErrorOf([&] { ReadAudio(std::as_bytes(std::span(files[i])), std::to_string(i)); });
  };
  std::vector<std::string> alone;
  for (size_t i = 0; i < files.size(); ++i) alone.push_back(reason(i));
  EXPECT_NE(alone[0].substr(3), alone[1].substr(3));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < files.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int time = 0; time < 500; ++time) ASSERT_EQ(reason(i), alone[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Audio, RefusesRatesThatNoRecordingHas) {
  const TemporaryFolder folder;
  for (const int rate : {1, 999, 2'000'000'000}) {
    WriteWav(folder / "a.wav", {std::vector<float>(1000, 5.0f), rate});
    EXPECT_NE(ErrorOf([&] { ReadAudio(folder / "a.wav"); }).find(std::to_string(rate) + " Hz"), std::string::npos);
  }
}

TEST(Audio, RefusesWhatIsCutShort) {
  const TemporaryFolder folder;
  const std::vector<float> x = WhiteNoise(16000, 0.1, 2);
  for (const int format :
       {SF_FORMAT_WAV | SF_FORMAT_PCM_16, SF_FORMAT_WAV | SF_FORMAT_FLOAT, SF_FORMAT_FLAC | SF_FORMAT_PCM_16}) {
    WriteSound(folder / "whole", x, 1, 16000, format);
    const std::string bytes = ReadFile(folder / "whole");
    for (const double share : {0.25, 0.5, 0.95}) {
      const std::string part = bytes.substr(0, static_cast<size_t>(share * static_cast<double>(bytes.size())));
      WriteFileAtomically(folder / "part", part);
      EXPECT_NE(ErrorOf([&] { ReadAudio(folder / "part"); }).find("cut short"), std::string::npos) << format << share;
      ErrorOf([&] { ReadAudio(std::as_bytes(std::span(part)), "part"); });
    }
  }
}

// A WAV file of 1000 samples, whose header claims other lengths in bytes: of all of it, and of its samples.
std::string WavThatClaims(const TemporaryFolder& folder, uint32_t riff, uint32_t data) {
  WriteWav(folder / "whole.wav", {std::vector<float>(1000, 5.0f), 16000});
  std::string bytes = ReadFile(folder / "whole.wav");
  std::memcpy(bytes.data() + 4, &riff, 4);
  std::memcpy(bytes.data() + 40, &data, 4);
  return bytes;
}

// Reads a file through a pipe.
Waveform ReadPiped(const TemporaryFolder& folder, const std::string& bytes) {
  const std::filesystem::path pipe = folder / "pipe";
  EXPECT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe, std::ios::binary) << bytes; });
  Waveform wave;
  try {
    wave = ReadAudio(pipe);
  } catch (const InputError& e) {
    ADD_FAILURE() << e.what();
  }
  writer.join();
  std::filesystem::remove(pipe);
  return wave;
}

// As SoX writes it where it cannot go back, arecord, ffmpeg, and others.
TEST(Audio, AcceptsWavOfUnknownLength) {
  const TemporaryFolder folder;
  const std::pair<uint32_t, uint32_t> claims[] = {{0x7ffff024, 0x7ffff000},
                                                  {0x7fffffff, 0x7fffffff},
                                                  {0x80000024, 0x80000000},
                                                  {0xffffffff, 0xffffffff},
                                                  {8, 0},
                                                  {36, 0},
                                                  {0, 0},
                                                  {0xffffffff, 0}};
  for (const auto& [riff, data] : claims) {
    const std::string bytes = WavThatClaims(folder, riff, data);
    WriteFileAtomically(folder / "a.wav", bytes);
    EXPECT_EQ(ReadAudio(folder / "a.wav").samples, std::vector<float>(1000, 5.0f)) << riff << " " << data;
    EXPECT_EQ(ProbeAudio(folder / "a.wav").num_samples, 1000) << riff << " " << data;
    const Waveform back = ReadAudio(std::as_bytes(std::span(bytes)), "memory", {.start_s = 0.01});
    EXPECT_EQ(back.samples, std::vector<float>(840, 5.0f)) << riff << " " << data;
  }
}

TEST(Audio, AcceptsWavOfUnknownLengthThroughAPipe) {
  const TemporaryFolder folder;
  for (const uint32_t data : {2000U, 0x7ffff000U, 0x7fffffffU, 0xffffffffU}) {
    const Waveform wave = ReadPiped(folder, WavThatClaims(folder, data < 0xfffff000U ? data + 36 : data, data));
    EXPECT_EQ(wave.samples, std::vector<float>(1000, 5.0f)) << data;
  }
}

// Flac's encoder and ffmpeg write no length where they cannot go back.
TEST(Audio, AcceptsFlacOfUnknownLength) {
  const TemporaryFolder folder;
  WriteSound(folder / "x.flac", WhiteNoise(40000, 0.1, 3), 1, 16000, SF_FORMAT_FLAC | SF_FORMAT_PCM_16);
  const Waveform whole = ReadAudio(folder / "x.flac");
  std::string bytes = ReadFile(folder / "x.flac");
  // Of the 36 bits of the number of samples, four are the low ones of byte 21.
  bytes[21] = static_cast<char>(bytes[21] & 0xf0);
  for (size_t i = 22; i < 26; ++i) bytes[i] = 0;
  WriteFileAtomically(folder / "x.flac", bytes);
  EXPECT_EQ(ReadAudio(folder / "x.flac").samples, whole.samples);
  EXPECT_EQ(ReadAudio(folder / "x.flac", {.start_s = 1.0, .end_s = 1.5}).samples.size(), 8000u);
  EXPECT_EQ(ProbeAudio(folder / "x.flac").num_samples, 40000);
  EXPECT_EQ(ProbeAudio(std::as_bytes(std::span(bytes)), "memory").num_samples, 40000);
}

// What follows an empty recording of an archive is the next one, and what follows one of a file may be no samples.
TEST(Audio, AnEmptyRecordingStaysEmpty) {
  const TemporaryFolder folder;
  const std::string empty = WavThatClaims(folder, 36, 0).substr(0, 44);
  const std::string archive = empty + "second " + WavThatClaims(folder, 2036, 2000);
  std::string listed = empty + "LIST" + std::string("\4\0\0\0", 4) + "INFO";
  listed[4] = 48;
  for (const std::string& bytes : {empty, archive, listed}) {
    const auto read = [&] { ReadAudio(std::as_bytes(std::span(bytes)), "memory"); };
    EXPECT_NE(ErrorOf(read).find("no samples"), std::string::npos) << bytes.size();
  }
}

TEST(Audio, RefusesSamplesThatAreNotFinite) {
  const TemporaryFolder folder;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e20f}) {
    std::vector<float> x(1600, 0.1f);
    x[800] = bad;
    WriteSound(folder / "x.wav", x, 1, 16000, SF_FORMAT_WAV | SF_FORMAT_FLOAT);
    EXPECT_NE(ErrorOf([&] { ReadAudio(folder / "x.wav"); }).find("0.0500 s"), std::string::npos);
  }
}

TEST(Audio, ResamplesTonesFaithfully) {
  for (const int from : {8000, 11025, 16000, 44100, 48000}) {
    for (const int to : {8000, 16000}) {
      const Waveform out = Resample({Tone(2 * from, 1000, 10000, from), from}, to);
      ASSERT_EQ(out.samples.size(), static_cast<size_t>(2 * to));
      ASSERT_EQ(out.sample_rate_hz, to);
      const std::vector<float> expected = Tone(2 * to, 1000, 10000, to);
      for (int i = to / 4; i < 7 * to / 4; ++i) ASSERT_NEAR(out.samples[i], expected[i], 10) << from << to << i;
    }
  }
}

TEST(Audio, SpeedRaisesPitchAndShortens) {
  const std::vector<float> out = ResampleBySpeed(Tone(16000, 500, 10000), 1.25);
  ASSERT_EQ(out.size(), 12800u);
  const std::vector<float> expected = Tone(12800, 625, 10000);
  for (size_t i = 2000; i < 10800; ++i) ASSERT_NEAR(out[i], expected[i], 20);
}

TEST(Audio, InPiecesItIsTheSame) {
  const TemporaryFolder folder;
  Rng rng(4);
  Waveform wave{std::vector<float>(200001), 16000};
  for (float& x : wave.samples) x = static_cast<float>(std::lrint(1000 * rng.Normal()));
  WriteWav(folder / "a.wav", wave);
  for (const AudioSelection& selection : {AudioSelection{}, AudioSelection{.start_s = 1.25, .end_s = 9.5}}) {
    AudioReader reader(folder / "a.wav", selection);
    std::vector<float> joined;
    int pieces = 0;
    for (std::vector<float> piece; reader.Read(piece); ++pieces)
      joined.insert(joined.end(), piece.begin(), piece.end());
    EXPECT_GE(pieces, 2);
    EXPECT_EQ(joined, ReadAudio(folder / "a.wav", selection).samples);
    EXPECT_NEAR(reader.duration_s(), static_cast<double>(joined.size()) / 16000, 1e-9);
  }
  for (const int rate : {8000, 16000, 22050, 44100}) {
    Waveform sound{std::vector<float>(wave.samples.begin(), wave.samples.begin() + 70001), 16000};
    const std::vector<float> expected = Resample(sound, rate).samples;
    for (const size_t most : {1000, 30000, 100000}) {
      Resampler resampler(16000, rate);
      std::vector<float> found;
      for (size_t begin = 0; begin < sound.samples.size();) {
        const size_t count = std::min<size_t>(sound.samples.size() - begin, 1 + rng.Below(most));
        resampler.Accept(std::span(sound.samples).subspan(begin, count), found);
        begin += count;
      }
      resampler.Finish(found);
      EXPECT_EQ(found, expected) << rate << " Hz, pieces of up to " << most;
    }
  }
}

// Zeros, sound, and a microphone that is muted at an offset.
TEST(ZeroSpans, AreWhereAllSamplesAreTheSame) {
  std::vector<float> audio(8000, 0.0F);
  for (int i = 2000; i < 5000; ++i) audio[static_cast<size_t>(i)] = i % 3 == 0 ? 0.0F : 1.0F;
  for (int i = 5000; i < 8000; ++i) audio[static_cast<size_t>(i)] = -256.0F;
  for (const size_t piece : {1, 700, 8000}) {
    ZeroSpans spans(1000);
    for (size_t begin = 0; begin < audio.size(); begin += piece)
      spans.Accept(std::span(audio).subspan(begin, std::min(piece, audio.size() - begin)));
    EXPECT_EQ(spans.Runs(), (std::vector<std::pair<double, double>>{{0, 2}, {5, 8}}));
    for (const ZeroSpans& of : {spans, ZeroSpans(spans.Runs())}) {
      EXPECT_TRUE(of.Cover(0, 2, 0));
      EXPECT_TRUE(of.Cover(0, 2.01, 0.01));
      EXPECT_FALSE(of.Cover(0, 2.02, 0.01));
      EXPECT_TRUE(of.Cover(5.5, 7, 0));
      EXPECT_FALSE(of.Cover(1, 6, 0));
      EXPECT_FALSE(of.Cover(3, 3, 0));
    }
    spans.ForgetBefore(3);
    EXPECT_FALSE(spans.Cover(0, 2, 0));
    EXPECT_TRUE(spans.Cover(6, 7, 0));
  }
}

// Sound is a run of a sample, of which slack would make a frame.
TEST(ZeroSpans, DoNotBeginWithTheLastSample) {
  ZeroSpans spans(1000);
  spans.Accept(std::vector<float>{1, 2, 3});
  EXPECT_FALSE(spans.Cover(0.002, 0.012, 0.01));
  EXPECT_TRUE(spans.Runs().empty());
}

}  // namespace
}  // namespace antiphon::feat
