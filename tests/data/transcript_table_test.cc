#include "data/transcript_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/error.h"
#include "base/file.h"
#include "put_file.h"
#include "temporary_folder.h"

namespace antiphon::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::vector<std::string>> Parse(std::string_view text, char separator = ',', bool quotes = true) {
  std::vector<std::vector<std::string>> rows;
  for (const TableRow& row : ParseSeparatedValues(text, separator, quotes, "t.csv")) rows.push_back(row.fields);
  return rows;
}

TEST(SeparatedValues, FollowTheCustomsOfCsv) {
  EXPECT_THAT(Parse("a,b\r\nc,d"), ElementsAre(ElementsAre("a", "b"), ElementsAre("c", "d")));
  EXPECT_THAT(Parse("a,\"b, \"\"c\"\"\nd\"\n"), ElementsAre(ElementsAre("a", "b, \"c\"\nd")));
  EXPECT_THAT(Parse("\xef\xbb\xbf"
                    "a,,\n\n,b\n"),
              ElementsAre(ElementsAre("a", "", ""), ElementsAre("", "b")));
  EXPECT_THAT(Parse("a\t\"b\n", '\t', false), ElementsAre(ElementsAre("a", "\"b")));
  EXPECT_THROW(Parse("a,\"b\n"), InputError);
  EXPECT_EQ(ParseSeparatedValues("a,\"x\ny\"\nb,c\n", ',', true, "t")[1].line, 3);
}

TEST(SeparatedValues, SurviveQuoting) {
  EXPECT_TRUE(rc::check("quoted fields come back", [](const std::vector<std::vector<std::string>>& rows) {
    std::string text;
    std::vector<std::vector<std::string>> expected;
    for (const auto& row : rows) {
      if (row.empty()) continue;
      expected.push_back(row);
      for (size_t i = 0; i < row.size(); ++i) {
        text += i == 0 ? "\"" : ",\"";
        for (const char c : row[i]) text += c == '"' ? std::string("\"\"") : std::string(1, c);
        text += '"';
      }
      text += '\n';
    }
    RC_ASSERT(Parse(text) == expected);
  }));
}

TEST(Transcripts, AreNormalisedOnlyWhenAsked) {
  PrepareOptions o;
  EXPECT_EQ(NormaliseTranscript("  Don't  stop, \"Jean-Luc\"!\n", o), "Don't stop, \"Jean-Luc\"!");
  o.strip_punctuation = true;
  EXPECT_EQ(NormaliseTranscript("Don't stop, \"Jean-Luc\"! - 'tis", o), "Don't stop Jean-Luc tis");
  o.case_folding = "upper";
  EXPECT_EQ(NormaliseTranscript("l\u2019\u00e9t\u00e9 \u03b1\u03c9 \u0436\u0451 \u017e\u0101 \u00f7 \u00df", o),
            "L'\u00c9T\u00c9 \u0391\u03a9 \u0416\u0401 \u017d\u0100 \u00f7 \u00df");
  o.case_folding = "lower";
  EXPECT_EQ(NormaliseTranscript("\u00c9T\u00c9 \u0391\u03a9 \u0416\u0401 \u017d\u0100 ABC \u0130", o),
            "\u00e9t\u00e9 \u03b1\u03c9 \u0436\u0451 \u017e\u0101 abc i");
}

class PrepareTest : public ::testing::Test {
 protected:
  PrepareTest() {
    for (const char* name : {"audio/ann/one.wav", "audio/ann/two.wav", "audio/bob/three.flac", "audio/notes.txt"}) {
      PutFile(folder_ / name, "");
    }
  }
  DataDir Prepare(const std::string& name, std::string_view table, const PrepareOptions& options = {}) {
    PutFile(folder_ / name, table);
    problems_.clear();
    return PrepareDataDir(folder_ / "audio", folder_ / name, options, problems_);
  }
  ::antiphon::testing::TemporaryFolder folder_;
  std::vector<DataProblem> problems_;
};

TEST_F(PrepareTest, JoinsATableWithAHeader) {
  const DataDir dir =
      Prepare("t.csv",
              "sentence,speaker,path,sex\n\"one, two\",ann,ann/one.wav,Female\nthree,bob,three,male\nx,ann,two.wav,\n");
  EXPECT_TRUE(problems_.empty());
  ASSERT_EQ(dir.utterances().size(), 3u);
  EXPECT_EQ(dir.utterances()[0].utt_id, "ann-one");
  EXPECT_THAT(dir.utterances()[0].words, ElementsAre("one,", "two"));
  EXPECT_EQ(dir.utterances()[2].speaker, "bob");
  EXPECT_EQ(dir.gender().at("ann"), "f");
  dir.Write(folder_ / "data");
  const DataDir again = DataDir::Load(folder_ / "data");
  EXPECT_EQ(again.utterances().size(), 3u);
  EXPECT_EQ(again.ResolveAudio(again.recordings()[again.utterances()[2].recording]).filename(), "three.flac");
}

TEST_F(PrepareTest, TakesTheColumnsInOrderWithoutAHeader) {
  const DataDir dir = Prepare("t.tsv", "one.wav\tone\ntwo.wav\ttwo words\n", {.speaker_from = "folder"});
  ASSERT_EQ(dir.utterances().size(), 2u);
  EXPECT_EQ(dir.utterances()[1].speaker, "ann");
  ASSERT_EQ(problems_.size(), 1u);
  EXPECT_THAT(problems_[0].what, HasSubstr("1 audio files without a row"));
}

TEST_F(PrepareTest, CutsFilesThatHoldSeveralUtterances) {
  const DataDir dir =
      Prepare("t.csv",
              "file,start,end,text,speaker\n"
              "one.wav,0,1.5,one,ann\none.wav,1.5,2.25,two,ann\ntwo.wav,3,,three,ann\none.wav,5,4,x,ann\n");
  ASSERT_EQ(dir.utterances().size(), 3u);
  EXPECT_EQ(dir.recordings().size(), 2u);
  EXPECT_TRUE(dir.has_segments());
  EXPECT_EQ(dir.utterances()[1].utt_id, "ann-one-0000150");
  EXPECT_EQ(dir.utterances()[1].start_s, 1.5);
  EXPECT_EQ(dir.utterances()[1].end_s, 2.25);
  EXPECT_EQ(dir.utterances()[2].end_s, -1.0);
  ASSERT_EQ(problems_.size(), 2u);
  EXPECT_THAT(problems_[0].what, HasSubstr("expected start and end in seconds, found '5' and '4'"));
  dir.Write(folder_ / "data");
  EXPECT_EQ(DataDir::Load(folder_ / "data").utterances()[1].end_s, 2.25);
}

TEST_F(PrepareTest, NamesRowsThatCannotBeUsed) {
  const DataDir dir = Prepare("t.csv", "one.wav,one\nfour.wav,four\ntwo.wav,\nthree.flac\none.wav,again\n");
  EXPECT_EQ(dir.utterances().size(), 1u);
  ASSERT_EQ(problems_.size(), 5u);
  EXPECT_THAT(problems_[0].where, HasSubstr("t.csv:2"));
  EXPECT_THAT(problems_[0].what, HasSubstr("no audio file 'four.wav'"));
  EXPECT_THAT(problems_[1].what, HasSubstr("transcript of 'ann/two.wav' is empty"));
  EXPECT_THAT(problems_[2].what, HasSubstr("1 columns; expected at least 2"));
  EXPECT_THAT(problems_[3].what, HasSubstr("there twice"));
  EXPECT_THAT(problems_[4].what, HasSubstr("'bob/three.flac'"));
  EXPECT_EQ(dir.recordings().size(), 1u);
  EXPECT_THROW(Prepare("u.csv", "four.wav,four\n"), InputError);
  EXPECT_THROW(Prepare("v.csv", ""), InputError);
}

}  // namespace
}  // namespace antiphon::data
