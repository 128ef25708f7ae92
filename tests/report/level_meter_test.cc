#include "report/level_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace antiphon::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kRateHz = 8000;

class LevelMeterTest : public ::testing::Test {
 protected:
  ProgressSink Sink(bool terminal = true) {
    return {.terminal = terminal, .width = 80, .write = [this](std::string_view text) { shown_.emplace_back(text); }};
  }
  std::vector<std::string> shown_;
};

std::vector<int16_t> Sine(double height, int count) {
  std::vector<int16_t> samples;
  for (int i = 0; i < count; ++i) samples.push_back(static_cast<int16_t>(height * std::sin(i * 0.3)));
  return samples;
}

TEST_F(LevelMeterTest, ShowsMeanAndPeakTenTimesASecond) {
  LevelMeter meter(kRateHz, Sink());
  const std::vector<int16_t> samples = Sine(3276.8, kRateHz);
  for (size_t at = 0; at < samples.size(); at += 123) {
    meter.Accept(std::span(samples).subspan(at, std::min<size_t>(123, samples.size() - at)));
  }
  ASSERT_EQ(shown_.size(), 10U);
  // A tenth of full scale: −20 dB, and the mean of a sine 3 dB below.
  EXPECT_THAT(shown_[4], HasSubstr("microphone -23 dB ["));
  EXPECT_THAT(shown_[4], HasSubstr("] -20 dB peak"));
  EXPECT_THAT(shown_[4], HasSubstr("###|"));
  EXPECT_THAT(shown_[4], Not(HasSubstr("loud")));
}

TEST_F(LevelMeterTest, SaysWhatIsWrong) {
  LevelMeter meter(kRateHz, Sink());
  meter.Accept(Sine(32767, kRateHz / 10));
  EXPECT_THAT(shown_.back(), HasSubstr("too loud"));
  const std::vector<int16_t> zeros(kRateHz, 0);
  meter.Accept(zeros);
  EXPECT_THAT(shown_.back(), Not(HasSubstr("muted"))) << "a pause";
  meter.Accept(zeros);
  meter.Accept(zeros);
  EXPECT_THAT(shown_.back(), HasSubstr("nothing but zeros: is it muted?"));
}

TEST_F(LevelMeterTest, MakesPlaceOnceAndIsSilentWithoutATerminal) {
  {
    LevelMeter meter(kRateHz, Sink());
    meter.Clear();
    EXPECT_TRUE(shown_.empty());
    meter.Accept(Sine(100, kRateHz / 10));
    meter.Clear();
    meter.Clear();
    EXPECT_EQ(shown_.size(), 2U);
  }
  EXPECT_EQ(shown_.size(), 2U);
  LevelMeter nowhere(kRateHz, Sink(/*terminal=*/false));
  nowhere.Accept(Sine(100, kRateHz));
  EXPECT_EQ(shown_.size(), 2U);
}

}  // namespace
}  // namespace antiphon::report
