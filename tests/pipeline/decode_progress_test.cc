// How much of the speech is recognised, and how long the rest will take.
#include "pipeline/decode_progress.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace antiphon::pipeline {
namespace {

class DecodeProgressTest : public ::testing::Test {
 protected:
  DecodeProgress Make(int64_t total, bool shown) {
    report::ProgressSink sink;
    sink.terminal = true;
    sink.width = 100;
    sink.write = [this](std::string_view text) { drawn_.emplace_back(text); };
    return {"decoding", total, shown, sink, [this] { return now_; }};
  }

  double now_ = 100;
  std::vector<std::string> drawn_;
};

TEST_F(DecodeProgressTest, KnowsTheSecondsOfAllBySizes) {
  DecodeProgress progress = Make(4000, true);
  progress.Add(0, 10, 1000);  // the first second of speech begins the clock
  now_ += 5;
  progress.Add(10, 10, 1000);
  ASSERT_FALSE(drawn_.empty());
  for (const char* part : {"decoding", " 25 %", "2 s of speech/s", "0:15 left"}) {
    EXPECT_NE(drawn_.back().find(part), std::string::npos) << part << " in " << drawn_.back();
  }
  // Half of one recording of three times the size.
  now_ += 5;
  progress.Add(15, 30, 3000);
  EXPECT_NE(drawn_.back().find(" 62 %"), std::string::npos) << drawn_.back();
}

TEST_F(DecodeProgressTest, IsNotShownByOthersThanTheFirst) {
  DecodeProgress progress = Make(2000, false);
  progress.Add(10, 10, 1000);
  now_ += 100;
  progress.Add(10, 10, 1000);
  progress.Finish();
  EXPECT_TRUE(drawn_.empty());
}

}  // namespace
}  // namespace antiphon::pipeline
