#include "feat/augment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "base/error.h"
#include "reference.h"
#include "temporary_folder.h"

namespace antiphon::feat {
namespace {

double PowerOf(std::span<const float> x) {
  double sum = 0;
  for (const float v : x) sum += static_cast<double>(v) * v;
  return sum / static_cast<double>(x.size());
}

TEST(Augment, DoesNothingByDefault) {
  const Waveform wave{WhiteNoise(1000, 100, 1), 16000};
  EXPECT_EQ(Augmenter(AugmentOptions()).Apply(wave, "u").samples, wave.samples);
  EXPECT_EQ(Augmenter(AugmentOptions()).Describe("u"), "");
}

TEST(Augment, FollowsFromSeedAndUtterance) {
  AugmentOptions options;
  options.speeds = {0.9, 1.1};
  options.volume_low = 0.5;
  options.volume_high = 2.0;
  options.noise_probability = options.reverb_probability = 1.0;
  const Waveform wave{Tone(16000, 300, 5000), 16000};
  const Augmenter augmenter(options);
  const Waveform a = augmenter.Apply(wave, "a");
  EXPECT_EQ(a.samples, Augmenter(options).Apply(wave, "a").samples);
  EXPECT_NE(a.samples, augmenter.Apply(wave, "b").samples);
  options.seed = 2;
  EXPECT_NE(a.samples, Augmenter(options).Apply(wave, "a").samples);
  EXPECT_NE(augmenter.Describe("a").find("speed"), std::string::npos);
  EXPECT_NE(augmenter.Describe("a").find("noise at"), std::string::npos);
}

TEST(Augment, TheLabelIsTheNoiseThatIsAdded) {
  AugmentOptions options;
  options.noise_probability = 0.5;
  const Augmenter augmenter(options);
  std::map<std::string, int> seen;
  for (int u = 0; u < 200; ++u) {
    const std::string utt_id = "u" + std::to_string(u), label = augmenter.NoiseLabel(utt_id);
    ++seen[label];
    const std::string described = augmenter.Describe(utt_id);
    EXPECT_EQ(label == "clean", described.find("noise") == std::string::npos) << described;
    if (label != "clean") {
      EXPECT_NE(described.find(label + " noise"), std::string::npos) << described;
    }
  }
  EXPECT_EQ(seen.size(), 3u);
  EXPECT_NEAR(seen["clean"], 100, 25);
  EXPECT_NEAR(seen["white"], 50, 25);
}

TEST(Augment, FilesThatWouldBeCalledAlikeAreCalledByTheirPath) {
  const ::antiphon::testing::TemporaryFolder folder;
  AugmentOptions options;
  options.noise_probability = 1;
  options.noise_kinds = {"white"};
  for (const char* name : {"car/1.wav", "street/1.wav", "some hall.wav", "clean.wav", "white.wav"}) {
    std::filesystem::create_directories((folder / name).parent_path());
    WriteWav(folder / name, {WhiteNoise(800, 100, 1), 16000});
    options.noise_files.push_back((folder / name).string());
  }
  const Augmenter augmenter(options);
  std::set<std::string> seen;
  for (int u = 0; u < 200; ++u) seen.insert(augmenter.NoiseLabel("u" + std::to_string(u)));
  EXPECT_EQ(seen, (std::set<std::string>{"white", "some_hall", options.noise_files[0], options.noise_files[1],
                                         options.noise_files[3], options.noise_files[4]}));
}

TEST(Augment, NoiseHasTheRatioAskedFor) {
  const std::vector<float> clean = Tone(16000, 300, 5000);
  for (const std::string kind : {"white", "pink"}) {
    for (const double snr_db : {0.0, 10.0, 20.0}) {
      std::vector<float> noisy = clean;
      Rng rng(3);
      AddNoise(noisy, MakeNoise(kind, 5000, rng), 77, snr_db);
      std::vector<float> noise;
      for (size_t i = 0; i < clean.size(); ++i) noise.push_back(noisy[i] - clean[i]);
      EXPECT_NEAR(10 * std::log10(PowerOf(clean) / PowerOf(noise)), snr_db, 0.3) << kind;
    }
  }
}

TEST(Augment, PinkNoiseFallsByThreeDecibelsPerOctave) {
  Rng rng(4);
  const std::vector<float> noise = MakeNoise("pink", 200000, rng);
  EXPECT_NEAR(PowerOf(noise), 1.0, 1e-3);
  // Power at single frequencies an octave apart, by correlation with tones over many pieces.
  const auto power_at = [&](double cycles) {
    double sum = 0;
    for (size_t piece = 0; piece + 1000 <= noise.size(); piece += 1000) {
      double re = 0, im = 0;
      for (size_t i = 0; i < 1000; ++i) {
        re += noise[piece + i] * std::cos(2 * std::numbers::pi * cycles * static_cast<double>(i) / 1000);
        im += noise[piece + i] * std::sin(2 * std::numbers::pi * cycles * static_cast<double>(i) / 1000);
      }
      sum += re * re + im * im;
    }
    return sum;
  };
  double low = 0, high = 0;
  for (int k = 0; k < 10; ++k) {
    low += power_at(20 + k);
    high += power_at(160 + 8 * k);
  }
  EXPECT_NEAR(10 * std::log10(low / high), 9.0, 1.5);
}

TEST(Augment, ReverbKeepsLengthPowerAndAlignment) {
  std::vector<float> impulse(16000, 0.0f);
  impulse[1000] = 10000.0f;
  Rng rng(5);
  std::vector<float> response = MakeRoom(0.3, 16000, rng), delayed(50, 0.0f);
  delayed.insert(delayed.end(), response.begin(), response.end());
  for (const auto& h : {response, delayed}) {
    std::vector<float> wet = impulse;
    AddReverb(wet, h);
    ASSERT_EQ(wet.size(), impulse.size());
    EXPECT_NEAR(PowerOf(wet), PowerOf(impulse), 1e-3 * PowerOf(impulse));
    EXPECT_EQ(std::max_element(wet.begin(), wet.end()) - wet.begin(), 1000);
    // What is heard is the response itself.
    const double scale = wet[1000];
    for (size_t i = 0; i < response.size(); i += 7) ASSERT_NEAR(wet[1000 + i] / scale, response[i], 1e-4);
  }
}

TEST(Augment, RoomsDecayBySixtyDecibels) {
  Rng rng(6);
  const std::vector<float> room = MakeRoom(0.5, 16000, rng);
  ASSERT_EQ(room.size(), 8000u);
  const double early = PowerOf(std::span(room).subspan(800, 400)), late = PowerOf(std::span(room).subspan(4000, 400));
  EXPECT_NEAR(10 * std::log10(early / late), 60.0 * 3200 / 8000, 2.5);
}

TEST(Augment, TakesRecordingsOfNoise) {
  const antiphon::testing::TemporaryFolder folder;
  WriteWav(folder / "noise.wav", {Tone(8000, 1000, 8000, 8000), 8000});
  AugmentOptions options;
  options.noise_probability = 1.0;
  options.noise_kinds = {};
  options.noise_files = {(folder / "noise.wav").string()};
  options.snr_low_db = options.snr_high_db = 10;
  const Waveform wave{Tone(32000, 300, 5000), 16000};
  const Waveform noisy = Augmenter(options).Apply(wave, "u");
  ASSERT_EQ(noisy.samples.size(), wave.samples.size());
  EXPECT_NEAR(PowerOf(noisy.samples) / PowerOf(wave.samples), 1.1, 0.01);
  WriteWav(folder / "silent.wav", {std::vector<float>(100, 0.0f), 8000});
  options.noise_files = {(folder / "silent.wav").string()};
  EXPECT_THROW(Augmenter{options}, InputError);
  options.noise_files = {};
  EXPECT_THROW(Augmenter{options}, UsageError);
}

TEST(MaskSpectrum, FillsBandsAndStretchesWithTheMean) {
  Matrix frames(100, 20);
  Rng rng(7);
  for (int64_t i = 0; i < frames.size(); ++i) frames.data()[i] = static_cast<float>(rng.Normal());
  const Matrix before = frames;
  MaskSpectrum(frames, {.num_bands = 1, .max_band = 5, .num_stretches = 1, .max_stretch_frames = 10}, rng, 15);
  int64_t changed = 0;
  for (int64_t t = 0; t < 100; ++t) {
    for (int64_t d = 0; d < 20; ++d) {
      changed += frames(t, d) != before(t, d);
      ASSERT_TRUE(d < 15 || frames(t, d) == before(t, d));
    }
  }
  EXPECT_GT(changed, 0);
  EXPECT_LE(changed, 5 * 100 + 10 * 15);
}

}  // namespace
}  // namespace antiphon::feat
