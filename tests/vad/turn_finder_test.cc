// Turns of speech from probabilities: where they begin and end, and that nothing is decided twice or never.
#include "vad/turn_finder.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <utility>
#include <vector>

namespace antiphon::vad {
namespace {

constexpr double kShiftS = 0.01;

VadOptions Options(double min_speech_s, double min_pause_s, double padding_s) {
  VadOptions options;
  options.peak = 0;
  options.min_speech_s = min_speech_s;
  options.min_pause_s = min_pause_s;
  options.padding_s = padding_s;
  return options;
}

struct Turn {
  int64_t begin, end;
  bool operator==(const Turn&) const = default;
};

// Takes what is decided after each frame that `asks` says, and at the end.
std::vector<Run> RunsOf(const std::vector<double>& probabilities, const VadOptions& options, int every) {
  TurnFinder finder(options, kShiftS);
  std::vector<Run> runs;
  const auto take = [&] {
    for (const Run& run : finder.Take()) runs.push_back(run);
  };
  for (size_t i = 0; i < probabilities.size(); ++i) {
    finder.Accept(probabilities[i]);
    if (i % static_cast<size_t>(every) == 0) take();
  }
  finder.Finish();
  take();
  return runs;
}

std::vector<Turn> TurnsOf(const std::vector<Run>& runs) {
  std::vector<Turn> turns;
  bool open = false;
  for (const Run& run : runs) {
    if (!run.speech) continue;
    if (!open) turns.push_back({run.begin, run.end});
    turns.back().end = run.end;
    open = !run.last;
  }
  EXPECT_FALSE(open) << "a turn has a last run";
  return turns;
}

std::vector<Turn> TurnsOf(const std::vector<double>& probabilities, const VadOptions& options) {
  return TurnsOf(RunsOf(probabilities, options, 1));
}

// Frames of silence, speech, silence, …
std::vector<double> Sound(const std::vector<int>& lengths) {
  std::vector<double> sound;
  for (size_t i = 0; i < lengths.size(); ++i) {
    sound.insert(sound.end(), static_cast<size_t>(lengths[i]), i % 2 == 0 ? 0.1 : 0.9);
  }
  return sound;
}

TEST(TurnFinder, PadsWhatIsLongEnough) {
  const VadOptions options = Options(0.1, 0.5, 0.3);
  EXPECT_EQ(TurnsOf(Sound({100, 50, 100}), options), (std::vector<Turn>{{70, 180}}));
  EXPECT_EQ(TurnsOf(Sound({100, 9, 100}), options), std::vector<Turn>{}) << "too short";
  EXPECT_EQ(TurnsOf(Sound({10, 50, 10}), options), (std::vector<Turn>{{0, 70}})) << "no frame before the first";
}

TEST(TurnFinder, GoesOnAcrossPausesThatAreShort) {
  const VadOptions options = Options(0.1, 0.5, 0.1);
  EXPECT_EQ(TurnsOf(Sound({50, 50, 49, 50, 100}), options), (std::vector<Turn>{{40, 209}}));
  EXPECT_EQ(TurnsOf(Sound({50, 50, 50, 50, 100}), options), (std::vector<Turn>{{40, 110}, {140, 210}}));
  EXPECT_EQ(TurnsOf(Sound({50, 50, 50, 50, 100}), Options(0.1, 0.5, 0.4)), (std::vector<Turn>{{10, 140}, {140, 240}}))
      << "padding meets and does not overlap";
}

TEST(TurnFinder, PaddingBehindOutlastsAShorterPause) {
  const VadOptions options = Options(0.1, 0.2, 0.5);
  EXPECT_EQ(TurnsOf(Sound({100, 50, 100}), options), (std::vector<Turn>{{50, 200}}));
  EXPECT_EQ(TurnsOf(Sound({50, 50, 30}), options), (std::vector<Turn>{{0, 130}})) << "the sound ends before it";
  EXPECT_EQ(TurnsOf(Sound({50, 50, 30, 50, 100}), options), (std::vector<Turn>{{0, 130}, {130, 230}}));
  EXPECT_EQ(TurnsOf(Sound({50, 50, 30, 5, 100}), options), (std::vector<Turn>{{0, 150}})) << "too short for a turn";
}

TEST(TurnFinder, SpeechWaversAboveTheLowerThreshold) {
  std::vector<double> sound = Sound({50, 20, 0, 0});
  sound.insert(sound.end(), 100, 0.4);  // below the threshold of 0.5, but not by so much
  sound.insert(sound.end(), 100, 0.1);
  EXPECT_EQ(TurnsOf(sound, Options(0.1, 0.5, 0.0)), (std::vector<Turn>{{50, 170}}));
  const std::vector<double> never(200, 0.4);
  EXPECT_EQ(TurnsOf(never, Options(0.1, 0.5, 0.0)), std::vector<Turn>{});
}

VadOptions WithPeak(double peak) {
  VadOptions options = Options(0.1, 0.5, 0.1);
  options.peak = peak;
  return options;
}

// Stretches of so many frames of so much probability.
std::vector<double> Stretches(const std::vector<std::pair<int, double>>& stretches) {
  std::vector<double> sound;
  for (const auto& [length, probability] : stretches) {
    sound.insert(sound.end(), static_cast<size_t>(length), probability);
  }
  return sound;
}

TEST(TurnFinder, ATurnCountsThatReachesThePeak) {
  const auto doubtful = Stretches({{100, 0.1}, {60, 0.6}, {100, 0.1}});
  EXPECT_EQ(TurnsOf(doubtful, WithPeak(0)), (std::vector<Turn>{{90, 170}}));
  EXPECT_EQ(TurnsOf(doubtful, WithPeak(0.9)), std::vector<Turn>{});
  const auto sure = [](int at_peak) {
    return Stretches({{100, 0.1}, {30, 0.6}, {at_peak, 0.95}, {30, 0.6}, {100, 0.1}});
  };
  EXPECT_EQ(TurnsOf(sure(10), WithPeak(0.9)), (std::vector<Turn>{{90, 180}})) << "all of it, not the peak alone";
  EXPECT_EQ(TurnsOf(sure(9), WithPeak(0.9)), std::vector<Turn>{}) << "in no row of min-speech";
}

TEST(TurnFinder, DoubtOutlastsPausesAndEndsWithTheTurn) {
  const auto pause_of = [](int frames) {
    return Stretches({{50, 0.1}, {20, 0.6}, {frames, 0.1}, {20, 0.95}, {100, 0.1}});
  };
  EXPECT_EQ(TurnsOf(pause_of(49), WithPeak(0.9)), (std::vector<Turn>{{40, 149}})) << "a faint word before a loud one";
  EXPECT_EQ(TurnsOf(pause_of(50), WithPeak(0.9)), (std::vector<Turn>{{110, 150}}));
}

TEST(TurnFinder, LongDoubtIsNoPartOfTheTurn) {
  const auto late = Stretches({{50, 0.1}, {500, 0.6}, {20, 0.95}, {100, 0.1}});
  EXPECT_EQ(TurnsOf(late, WithPeak(0.9)), (std::vector<Turn>{{450, 580}}));  // 560: sure; a second, and padding before
}

VadOptions AnyOptions() {
  VadOptions options =
      Options(*rc::gen::inRange(0, 30) * 0.01, *rc::gen::inRange(5, 60) * 0.01, *rc::gen::inRange(0, 60) * 0.01);
  options.peak = *rc::gen::element(0.0, 0.6, 0.9);
  return options;
}

RC_GTEST_PROP(TurnFinder, CoversEveryFrameOnceHoweverOneAsks, ()) {
  const auto percent = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 101));
  std::vector<double> probabilities;
  for (const int p : percent) probabilities.insert(probabilities.end(), 7, p / 100.0);
  const VadOptions options = AnyOptions();
  const std::vector<Run> runs = RunsOf(probabilities, options, *rc::gen::inRange(1, 50));
  int64_t next = 0;
  for (const Run& run : runs) {
    RC_ASSERT(run.begin == next);
    RC_ASSERT(run.end > run.begin || run.last);
    next = run.end;
  }
  RC_ASSERT(next == static_cast<int64_t>(probabilities.size()));
  RC_ASSERT(TurnsOf(runs) == TurnsOf(RunsOf(probabilities, options, 1 << 20)));
}

RC_GTEST_PROP(TurnFinder, DecidesInBoundedTime, ()) {
  const auto percent = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 101));
  const VadOptions options = AnyOptions();
  TurnFinder finder(options, kShiftS);
  int64_t frames = 0, decided = 0;
  for (const int p : percent) {
    for (int i = 0; i < 5; ++i) {
      finder.Accept(p / 100.0);
      ++frames;
      for (const Run& run : finder.Take()) decided = run.end;
      RC_ASSERT(frames - decided <= finder.MaxDelay());
    }
  }
}

}  // namespace
}  // namespace antiphon::vad
