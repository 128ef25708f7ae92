// Subtitles and other formats of transcripts: what a viewer's programs demand of them.
#include "pipeline/transcript.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/utf8.h"

namespace antiphon::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Words of `seconds` each, one after the other, after a pause where one stands in front: "one two |1.5 three".
std::vector<TranscriptWord> Said(const std::string& text, double seconds = 0.3) {
  std::vector<TranscriptWord> words;
  double at = 0;
  for (std::istringstream in(text); in >> std::ws && !in.eof();) {
    std::string word;
    in >> word;
    if (word[0] == '|') {
      at += std::stod(word.substr(1));
      continue;
    }
    words.push_back({word, at, at + seconds, 0.875});
    at += seconds;
  }
  return words;
}

TEST(Cues, EndAtPauses) {
  const auto cues = MakeCues(Said("good morning |1.5 what is the time"));
  ASSERT_EQ(cues.size(), 2u);
  EXPECT_THAT(cues[0].lines, ElementsAre("good morning"));
  EXPECT_THAT(cues[1].lines, ElementsAre("what is the time"));
  EXPECT_DOUBLE_EQ(cues[0].end_s, 1.0) << "shown for a second, as nothing follows so soon";
  EXPECT_DOUBLE_EQ(cues[1].start_s, 2.1);
}

TEST(Cues, DivideLongSpeechAtItsLongestPause) {
  const auto cues =
      MakeCues(Said("a quick brown fox jumps over the lazy dog and |0.4 then another brown fox jumps over a "
                    "dog that is lazy too",
                    0.25));
  ASSERT_EQ(cues.size(), 2u);
  EXPECT_THAT(cues[0].lines, ElementsAre("a quick brown fox jumps", "over the lazy dog and"));
  EXPECT_EQ(cues[1].lines.front().substr(0, 12), "then another");
}

RC_GTEST_PROP(Cues, HoldAllWordsInLinesThatFit, ()) {
  std::string text;
  std::vector<TranscriptWord> words;
  double at = 0;
  const int count = *rc::gen::inRange(0, 60);
  for (int i = 0; i < count; ++i) {
    at += 0.01 * *rc::gen::inRange(0, 120);
    const double end = at + 0.01 * *rc::gen::inRange(1, 100);
    const std::string word(static_cast<size_t>(*rc::gen::inRange(1, 50)), 'w');
    words.push_back({word, at, end, 1.0});
    text += (text.empty() ? "" : " ") + word;
    at = end;
  }
  std::string shown;
  double before = 0;
  for (const Cue& cue : MakeCues(words)) {
    RC_ASSERT(!cue.lines.empty() && cue.lines.size() <= 2);
    RC_ASSERT(cue.start_s >= before && cue.end_s > cue.start_s);
    before = cue.end_s;
    for (const std::string& line : cue.lines) {
      shown += (shown.empty() ? "" : " ") + line;
      RC_ASSERT(DisplayColumns(line) <= 42u || line.find(' ') == std::string::npos);
    }
  }
  RC_ASSERT(shown == text);
}

TEST(TranscriptFormats, AreWhatTheirProgramsRead) {
  const Transcript transcript{"call", 4.0, "", Said("R&D \"now\" |1.2 yes")};
  EXPECT_EQ(ToText(transcript), "R&D \"now\"\nyes\n");
  EXPECT_EQ(ToSrt(transcript),
            "1\n00:00:00,000 --> 00:00:01,000\nR&D \"now\"\n\n2\n00:00:01,800 --> 00:00:02,800\nyes\n\n");
  EXPECT_EQ(ToVtt(transcript).substr(0, 64), "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nR&amp;D \"now\"\n\n00:00:01.80");
  EXPECT_EQ(ToCtm(transcript), "call 1 0.00 0.30 R&D 0.88\ncall 1 0.30 0.30 \"now\" 0.88\ncall 1 1.80 0.30 yes 0.88\n");
  EXPECT_EQ(ToCtm({"my call", 4.0, "", {{"3 million", 1.0, 2.0, 0.5}}}),
            "my_call 1 1.00 0.50 3 0.50\nmy_call 1 1.50 0.50 million 0.50\n");
  const std::string grid = ToTextGrid(transcript);
  EXPECT_THAT(grid, HasSubstr("intervals: size = 5"));
  EXPECT_THAT(grid, HasSubstr("text = \"\"\"now\"\"\""));
  EXPECT_THAT(grid, HasSubstr("xmax = 4.000000"));
  const auto json = nlohmann::json::parse(ToJson(transcript));
  EXPECT_EQ(json["text"], "R&D \"now\" yes");
  EXPECT_EQ(json["words"][2]["start"], 1.8);
}

TEST(TranscriptFormats, OfSilenceAreWellFormed) {
  const Transcript nothing{"silence", 2.0, "", {}};
  EXPECT_EQ(ToText(nothing), "");
  EXPECT_EQ(ToSrt(nothing), "");
  EXPECT_EQ(ToVtt(nothing), "WEBVTT\n\n");
  EXPECT_THAT(ToTextGrid(nothing), HasSubstr("intervals: size = 1"));
  EXPECT_EQ(nlohmann::json::parse(ToJson(nothing))["words"].size(), 0u);
}

TEST(TranscriptLists, AreOneDocument) {
  const auto list = [](const char* format, const std::vector<std::string>& names) {
    std::ostringstream out;
    TranscriptList transcripts(FindTranscriptFormat(format), out);
    for (const std::string& name : names) transcripts.Add({name, 1.0, "", Said("yes")});
    transcripts.Close();
    return out.str();
  };
  EXPECT_EQ(list("text", {"a", "b"}), "== a\nyes\n== b\nyes\n");
  EXPECT_EQ(list("ctm", {"a", "b"}), "a 1 0.00 0.30 yes 0.88\nb 1 0.00 0.30 yes 0.88\n");
  const std::vector<std::vector<std::string>> all_names = {{}, {"a"}, {"a", "b", "c"}};
  for (const std::vector<std::string>& names : all_names) {
    const auto json = nlohmann::json::parse(list("json", names));
    ASSERT_EQ(json.size(), names.size());
    for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(json[i]["recording"], names[i]);
  }
}

TEST(TranscriptFormats, AreFoundByTheirEndings) {
  EXPECT_EQ(FindTranscriptFormat("SRT").write, &ToSrt);
  std::string (*const text_grid)(const Transcript&) = ToTextGrid;
  EXPECT_EQ(FindTranscriptFormat("textgrid").write, text_grid);
  EXPECT_THROW(FindTranscriptFormat("doc"), UsageError);
}

}  // namespace
}  // namespace antiphon::pipeline
