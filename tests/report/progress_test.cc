#include "report/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace antiphon::report {
namespace {

struct Screen {
  double now = 100;
  std::vector<std::string> shown;
  ProgressSink Sink(bool terminal) {
    ProgressSink sink;
    sink.terminal = terminal;
    sink.width = 100;
    sink.write = [this](std::string_view text) { shown.emplace_back(text); };
    return sink;
  }
  Progress::Clock Clock() {
    return [this] { return now; };
  }
};

TEST(Progress, TellsShareRateNoteAndTimeLeftOnATerminal) {
  Screen screen;
  Progress progress("epoch 1 of 4", 10000, "frames", screen.Sink(true), screen.Clock());
  screen.now += 10;
  progress.Update(2500, [] { return std::string("loss 2.31"); });
  ASSERT_EQ(screen.shown.size(), 1u);
  const std::string& line = screen.shown[0];
  EXPECT_EQ(line.substr(0, 1), "\r");
  for (const char* part : {"epoch 1 of 4", " 25 %", "250 frames/s", "loss 2.31", "0:30 left"}) {
    EXPECT_NE(line.find(part), std::string::npos) << part << " in " << line;
  }
}

TEST(Progress, WritesPlainLinesEverMoreRarelyInALog) {
  Screen screen;
  Progress progress("train", 1 << 20, "frames", screen.Sink(false), screen.Clock());
  for (int second = 1; second <= 600; ++second) {
    screen.now += 1;
    progress.Update(second * 100);
  }
  EXPECT_GT(screen.shown.size(), 3u);
  EXPECT_LT(screen.shown.size(), 12u);
  for (const std::string& line : screen.shown) {
    EXPECT_EQ(line.find_first_of("\r\n\x1b"), std::string::npos) << line;
  }
}

TEST(Progress, TakesMoreWorkInOnTheWay) {
  Screen screen;
  Progress progress("transcribing", 1, "s", screen.Sink(true), screen.Clock());
  progress.SetTotal(400);
  screen.now += 10;
  progress.Update(100);
  for (const char* part : {" 25 %", "0:30 left"}) {
    EXPECT_NE(screen.shown.at(0).find(part), std::string::npos) << screen.shown.at(0);
  }
}

TEST(Progress, CountsTheRateOfAResumedRunFromWhereItBegan) {
  Screen screen;
  Progress progress("train", 1000, "frames", screen.Sink(false), screen.Clock());
  progress.StartAt(900);
  screen.now += 10;
  progress.Finish();
  EXPECT_DOUBLE_EQ(progress.MeanRate(), 10.0);
}

TEST(Progress, NeverExceedsTheWidthOfTheTerminal) {
  Screen screen;
  Progress progress("a title", 100, "frames", screen.Sink(true), screen.Clock());
  screen.now += 1;
  progress.Update(50);
  const std::string line = screen.shown.at(0).substr(4);
  const auto columns = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; });
  EXPECT_LT(columns, 100);
}

TEST(Progress, FormatsDurationsAndCounts) {
  EXPECT_EQ(FormatDuration(65), "1:05");
  EXPECT_EQ(FormatDuration(3723), "1:02:03");
  EXPECT_EQ(FormatCount(1234), "1234");
  EXPECT_EQ(FormatCount(12345), "12.3 k");
  EXPECT_EQ(FormatCount(4560000), "4.56 M");
}

}  // namespace
}  // namespace antiphon::report
