#include "serve/transcript.h"

#include <gtest/gtest.h>

namespace antiphon::serve {
namespace {

Transcript Two() {
  Transcript transcript;
  StreamEvent first;
  first.final = true;
  first.text = "one two";
  first.words = {{"one", 0.5, 1.0, 1.0}, {"two", 1.0, 1.5, 1.0}};
  StreamEvent second = first;
  second.text = "three";
  second.words = {{"three", 3661.25, 3662.0, 0.5}};
  transcript.utterances = {first, second};
  transcript.duration_s = 3700;
  return transcript;
}

TEST(Transcript, IsWrittenAsSubtitles) {
  EXPECT_EQ(SrtOf(Two()), "1\n00:00:00,500 --> 00:00:01,500\none two\n\n2\n01:01:01,250 --> 01:01:02,000\nthree\n\n");
  EXPECT_EQ(VttOf(Two()),
            "WEBVTT\n\n00:00:00.500 --> 00:00:01.500\none two\n\n01:01:01.250 --> 01:01:02.000\nthree\n\n");
  EXPECT_EQ(Two().Text(), "one two three");
  EXPECT_EQ(VttOf({}), "WEBVTT\n\n");
}

TEST(Transcript, WordsAreNoMarksOfSubtitles) {
  Transcript transcript = Two();
  transcript.utterances.pop_back();
  transcript.utterances[0].text = "<unk> & co";
  EXPECT_EQ(VttOf(transcript), "WEBVTT\n\n00:00:00.500 --> 00:00:01.500\n&lt;unk&gt; &amp; co\n\n");
  EXPECT_EQ(SrtOf(transcript), "1\n00:00:00,500 --> 00:00:01,500\n<unk> & co\n\n");
}

TEST(Transcript, HasTheDetailsThatAreAskedFor) {
  const auto segments = VerboseJsonOf(Two(), {.language = "en"});
  EXPECT_FALSE(segments.contains("words"));
  ASSERT_EQ(segments["segments"].size(), 2U);
  EXPECT_EQ(segments["segments"][1]["start"], 3661.25);
  EXPECT_EQ(segments["segments"][0]["avg_logprob"], 0.0);
  EXPECT_NEAR(segments["segments"][1]["avg_logprob"].get<double>(), -0.693, 1e-3);
  const auto words = VerboseJsonOf(Two(), {.language = "en", .words = true, .segments = false});
  EXPECT_FALSE(words.contains("segments"));
  ASSERT_EQ(words["words"].size(), 3U);
  EXPECT_EQ(words["words"][2]["word"], "three");
  EXPECT_EQ(words["duration"], 3700.0);
}

TEST(Transcript, LeavesUnknownConfidencesOut) {
  Transcript transcript = Two();
  transcript.utterances[0].words[0].confidence = 0.5;
  transcript.utterances[0].words[1].confidence = -1;
  transcript.utterances[1].words[0].confidence = -1;
  const auto segments = VerboseJsonOf(transcript, {.language = "en"})["segments"];
  EXPECT_NEAR(segments[0]["avg_logprob"].get<double>(), -0.693, 1e-3);
  EXPECT_EQ(segments[1]["avg_logprob"], 0.0);
}

}  // namespace
}  // namespace antiphon::serve
