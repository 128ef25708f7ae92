// The example programs of docs/guides/use-as-a-library.md, run on a small model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "antiphon/aligner.h"
#include "antiphon/recognizer.h"
#include "api/two_words.h"
#include "base/file.h"
#include "feat/audio.h"

namespace antiphon {
namespace {

using ::testing::HasSubstr;
using testing::kRateHz;

class Examples : public ::testing::Test {
 protected:
  Examples() {
    feat::Waveform wave{testing::Noise(3 * kRateHz), kRateHz};
    for (float& x : wave.samples) {
      x = std::clamp(std::round(x), -32768.0F, 32767.0F);
      samples_.push_back(static_cast<int16_t>(x));
    }
    feat::WriteWav(system_.folder / "noise.wav", wave);
    WriteFileAtomically(system_.folder / "lexicon.txt", "ONE A\nTWO B\n");
    WriteFileAtomically(system_.folder / "samples",
                        std::string(reinterpret_cast<const char*>(samples_.data()), 2 * samples_.size()));
  }
  std::string Path(const std::string& name) const { return (system_.folder / name).string(); }

  // Whether it succeeded.
  bool Run(const std::string& example, const std::vector<std::string>& arguments) const {
    std::string command = fmt::format("'{}/example_{}'", ANTIPHON_BINARY_DIR, example);
    for (const std::string& argument : arguments) command += fmt::format(" '{}'", argument);
    command += fmt::format(" <'{}' >'{}' 2>'{}'", Path("samples"), Path("out"), Path("err"));
    return std::system(command.c_str()) == 0;
  }
  std::string Out() const { return ReadFile(Path("out")); }
  std::string Err() const { return ReadFile(Path("err")); }

  const testing::TwoWords system_{false};
  const std::string model_ = Path("net.safetensors"), graph_ = Path("graph");
  std::vector<int16_t> samples_;
};

TEST_F(Examples, RecognizeNamesWordsOfFiles) {
  ASSERT_TRUE(Run("recognize", {model_, graph_, Path("noise.wav")})) << Err();
  EXPECT_THAT(Out(), HasSubstr(": " + Recognizer(model_, graph_).RecognizeFile(Path("noise.wav")).text + "\n"));
  EXPECT_FALSE(Run("recognize", {model_, graph_, "/nonexistent.wav"}));
  EXPECT_THAT(Err(), HasSubstr("/nonexistent.wav"));
}

TEST_F(Examples, ListenPrintsUtterances) {
  ASSERT_TRUE(Run("listen", {model_, graph_, std::to_string(kRateHz)})) << Err();
  Stream stream =
      Recognizer(model_, graph_, {.hotwords = {{"TWO", 1.0}}}).NewStream(kRateHz, {.endpoint_silence_s = 0.7});
  std::vector<StreamEvent> events = stream.Accept(samples_);
  for (StreamEvent& event : stream.End()) events.push_back(std::move(event));
  std::erase_if(events, [](const StreamEvent& event) { return !event.final; });
  ASSERT_FALSE(events.empty());
  for (const StreamEvent& event : events) EXPECT_THAT(Out(), HasSubstr(" s  " + event.text + "\n"));
  EXPECT_FALSE(Run("listen", {model_, graph_, "0"}));
  EXPECT_THAT(Err(), HasSubstr("usage: the sampling rate is 0 Hz"));
}

TEST_F(Examples, AlignWritesATextGrid) {
  ASSERT_TRUE(Run("align", {model_, Path("lexicon.txt"), Path("noise.wav"), "ONE TWO"})) << Err();
  EXPECT_EQ(Out(), ToTextGrid(Aligner(model_, Path("lexicon.txt")).AlignFile(Path("noise.wav"), "ONE TWO")));
  EXPECT_FALSE(Run("align", {model_, Path("lexicon.txt"), Path("noise.wav"), "THREE"}));
  EXPECT_THAT(Err(), HasSubstr("THREE"));
}

// In C99.
TEST_F(Examples, StreamSaysWhatAStreamSays) {
  ASSERT_TRUE(Run("stream", {model_, graph_, std::to_string(kRateHz)})) << Err();
  Stream stream = Recognizer(model_, graph_, {.nbest = 3}).NewStream(kRateHz);
  std::string expected;
  const auto add = [&](const std::vector<StreamEvent>& events) {
    for (const StreamEvent& event : events) expected += event.final ? ToJson(event) + "\n" : "";
  };
  add(stream.Accept(samples_));
  add(stream.End());
  EXPECT_EQ(Out(), expected);
  EXPECT_NE(expected, "");
  EXPECT_FALSE(Run("stream", {model_, graph_, "0"}));
  EXPECT_THAT(Err(), HasSubstr("rate is 0 Hz"));
  EXPECT_FALSE(Run("stream", {"/nonexistent.safetensors", graph_, "8000"}));
  EXPECT_THAT(Err(), HasSubstr("/nonexistent.safetensors"));
  EXPECT_FALSE(Run("stream", {}));
  EXPECT_THAT(Err(), HasSubstr("usage"));
}

}  // namespace
}  // namespace antiphon
