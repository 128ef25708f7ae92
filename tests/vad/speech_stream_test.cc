// From sound to turns of speech: the same however it is cut, at any rate; and models that are none of this kind.
#include "vad/speech_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "loudness_vad.h"
#include "temporary_folder.h"

namespace antiphon::vad {
namespace {

using ::testing::HasSubstr;

class SpeechStreamTest : public ::testing::Test {
 protected:
  std::shared_ptr<const SpeechModel> Load(const nn::Model& model) {
    const auto file = folder_ / "vad.safetensors";
    model.Save(file);
    return SpeechModel::Load(file);
  }
  std::string WhyRefused(const nn::Model& model) {
    try {
      Load(model);
    } catch (const InputError& e) {
      return e.what();
    }
    return "taken";
  }

  testing::TemporaryFolder folder_;
};

// Noise, loud in every second stretch of so many samples.
std::vector<float> Stretches(const std::vector<int>& lengths) {
  Rng rng(5);
  std::vector<float> sound;
  for (size_t i = 0; i < lengths.size(); ++i) {
    for (int s = 0; s < lengths[i]; ++s) sound.push_back(static_cast<float>((i % 2 == 0 ? 8 : 3000) * rng.Normal()));
  }
  return sound;
}

struct Heard {
  std::vector<double> probabilities;
  std::vector<Run> runs;  // neighbours of one kind joined

  bool operator==(const Heard&) const = default;
};

Heard Hear(const std::shared_ptr<const SpeechModel>& model, std::span<const float> sound, int rate_hz, uint64_t seed) {
  Heard heard;
  SpeechStream stream(model, {}, rate_hz, [&](double p) { heard.probabilities.push_back(p); });
  const auto take = [&] {
    for (const Run& run : stream.Take()) {
      if (!heard.runs.empty() && heard.runs.back().speech == run.speech && !heard.runs.back().last) {
        heard.runs.back().end = run.end;
        heard.runs.back().last = run.last;
      } else {
        heard.runs.push_back(run);
      }
    }
  };
  Rng rng(seed);
  for (size_t at = 0; at < sound.size();) {
    const size_t most = seed == 0 ? sound.size() : 1 + rng.Below(seed % 2 == 0 ? 60 : 4000);
    const size_t count = std::min(sound.size() - at, most);
    stream.Accept(sound.subspan(at, count));
    take();
    at += count;
  }
  stream.Finish();
  take();
  return heard;
}

TEST_F(SpeechStreamTest, HearsWhereItIsLoud) {
  const auto model = Load(testing::LoudnessModel());
  const Heard heard = Hear(model, Stretches({8000, 12000, 16000, 4000, 8000}), 8000, 0);
  std::vector<vad::Run> speech;
  for (const vad::Run& run : heard.runs) {
    if (run.speech) speech.push_back(run);
  }
  ASSERT_EQ(speech.size(), 2U);
  // 0.3 s of padding; windows of 25 ms reach into what is loud.
  EXPECT_NEAR(static_cast<double>(speech[0].begin), 70, 3);
  EXPECT_NEAR(static_cast<double>(speech[0].end), 280, 3);
  EXPECT_NEAR(static_cast<double>(speech[1].begin), 420, 3);
  EXPECT_NEAR(static_cast<double>(speech[1].end), 530, 3);
}

TEST_F(SpeechStreamTest, HearsTheSameHoweverTheSoundIsCut) {
  nn::Model looks_around = testing::LoudnessModel();
  looks_around.network = nn::Network(
      Config::Parse(
          "layer = [{type = 'tdnn', dim = 8, offsets = [-3, 0, 2]}, {type = 'relu'}, {type = 'tdnn', dim = 8, "
          "offsets = [-9, 0, 5]}, {type = 'relu'}, {type = 'affine', init-scale = 3.0}]",
          "vad.toml"),
      testing::kVadBins, 2, 4);
  const auto model = Load(looks_around);
  for (const int rate_hz : {8000, 16000, 44100}) {
    const std::vector<float> sound = Stretches({rate_hz, rate_hz / 2, 2 * rate_hz, rate_hz, 333});
    const Heard whole = Hear(model, sound, rate_hz, 0);
    ASSERT_GT(whole.probabilities.size(), 300U);
    for (const uint64_t seed : {1, 2, 3}) EXPECT_EQ(Hear(model, sound, rate_hz, seed), whole) << rate_hz;
  }
}

TEST_F(SpeechStreamTest, NothingIsNoSpeech) {
  const auto model = Load(testing::LoudnessModel());
  EXPECT_EQ(Hear(model, {}, 8000, 0), Heard{});
  const std::vector<float> zeros(30000, 0.0F);
  for (const vad::Run& run : Hear(model, zeros, 8000, 0).runs) EXPECT_FALSE(run.speech);
}

TEST_F(SpeechStreamTest, RefusesOtherModels) {
  EXPECT_EQ(WhyRefused(testing::LoudnessModel()), "taken");
  nn::Model words = testing::LoudnessModel();
  words.hmm_json = "{}";
  EXPECT_THAT(WhyRefused(words), HasSubstr("recognises words"));
  nn::Model three = testing::LoudnessModel();
  three.network = nn::Network(Config::Parse("layer = [{type = 'affine'}]", "vad.toml"), testing::kVadBins, 3, 1);
  EXPECT_THAT(WhyRefused(three), HasSubstr("3 classes"));
  nn::Model unknown = testing::LoudnessModel();
  unknown.feature_config = "";
  EXPECT_THAT(WhyRefused(unknown), HasSubstr("what its features are"));
  nn::Model waits = testing::LoudnessModel();
  waits.feature_config += "pitch-dim = 1\n";
  EXPECT_THAT(WhyRefused(waits), HasSubstr("pitch"));
  nn::Model wide = testing::LoudnessModel();
  wide.feature_config = "kind = 'fbank'\nsample-rate = 8000\nmel-bins = 9\n";
  EXPECT_THAT(WhyRefused(wide), HasSubstr("its front end gives 9"));
}

}  // namespace
}  // namespace antiphon::vad
