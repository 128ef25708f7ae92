// Turns in sound that comes in pieces: their rows, and how sure voice activity is of any part of them as soon as it was
// handed out, are the same however the sound is cut.
#include "api/live_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/random.h"
#include "loudness_vad.h"
#include "temporary_folder.h"

namespace antiphon {
namespace {

constexpr int kSoundRateHz = testing::kVadRateHz;
constexpr int kSamplesPerRow = kSoundRateHz / 100;
constexpr double kRowShift_s = 0.01;
constexpr int kSubsampling = 3;

std::shared_ptr<const pipeline::VoiceActivity> Activity() {
  const testing::TemporaryFolder folder;
  testing::LoudnessModel().Save(folder / "vad.safetensors");
  return pipeline::VoiceActivity::Load({.model = (folder / "vad.safetensors").string()});
}

// Noise, nearly as loud as speech must be in every second second, which makes the model waver.
std::vector<float> Sound(int seconds) {
  Rng rng(7);
  std::vector<float> sound;
  for (int i = 0; i < seconds * kSoundRateHz; ++i) {
    sound.push_back(static_cast<float>((i / kSoundRateHz % 2 == 0 ? 8 : 700) * rng.Normal()));
  }
  return sound;
}

struct Followed {
  std::vector<float> rows;                             // of all turns; each says its number
  std::map<int64_t, std::vector<double>> certainties;  // by a turn's first row: of it up to each frame of the search

  bool operator==(const Followed&) const = default;
};

Followed Follow(const pipeline::VoiceActivity& activity, std::span<const float> sound, uint64_t seed) {
  LiveTurns turns(activity, kSoundRateHz, kRowShift_s, kSubsampling);
  Followed followed;
  int64_t begin = 0, end = 0;
  const auto take = [&] {
    while (const auto piece = turns.Next()) {
      if (piece->first) begin = end = piece->begin;
      for (int64_t r = 0; r < piece->rows.rows(); ++r) {
        followed.rows.push_back(piece->rows(r, 0));
        if (++end % kSubsampling == 0) followed.certainties[begin].push_back(turns.Certainty(begin, end));
      }
    }
  };
  Rng rng(seed);
  int64_t made = 0;
  for (size_t at = 0; at < sound.size();) {
    const size_t count = std::min(sound.size() - at, seed == 0 ? sound.size() : 1 + rng.Below(seed % 2 ? 300 : 9000));
    turns.Hear(sound.subspan(at, count));
    at += count;
    const auto to = static_cast<int64_t>(at) / kSamplesPerRow;
    Matrix rows(to - made, 1);
    for (int64_t r = 0; r < rows.rows(); ++r) rows(r, 0) = static_cast<float>(made + r);
    made = to;
    turns.Accept(rows);
    take();
  }
  turns.Finish();
  take();
  return followed;
}

TEST(LiveTurns, AndTheirCertaintyAreTheSameHoweverTheSoundIsCut) {
  const auto activity = Activity();
  const std::vector<float> sound = Sound(8);
  const Followed whole = Follow(*activity, sound, 0);
  ASSERT_EQ(whole.certainties.size(), 4U);
  for (uint64_t seed = 1; seed <= 6; ++seed) EXPECT_EQ(Follow(*activity, sound, seed), whole) << seed;
}

TEST(LiveTurns, HaveTheCertaintyOfARecordingHeardWhole) {
  const auto activity = Activity();
  const std::vector<float> sound = Sound(4);
  const Followed live = Follow(*activity, sound, 0);
  const pipeline::HeardSpeech heard = activity->Hear([&](const auto& sink) { sink(sound); }, kSoundRateHz);
  ASSERT_EQ(live.certainties.size(), heard.turns.size());
  for (const auto& [begin, of_turn] : live.certainties) {
    const double begin_s = static_cast<double>(begin) * kRowShift_s;
    for (size_t frame = 0; frame < of_turn.size(); ++frame) {
      const double end_s =
          begin_s + static_cast<double>(frame) * kSubsampling * kRowShift_s;  // the last does not count
      EXPECT_EQ(of_turn[frame], heard.certainty.Between(begin_s, end_s)) << begin << " " << frame;
    }
    EXPECT_GT(of_turn.back(), 0.5);
    EXPECT_LT(of_turn.back(), 0.999) << "the model wavers";
  }
}

}  // namespace
}  // namespace antiphon
