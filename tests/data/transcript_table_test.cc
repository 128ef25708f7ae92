#include "data/transcript_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/error.h"
#include "base/file.h"
#include "data/audio_source.h"
#include "data/channels.h"
#include "data/data_summary.h"
#include "data/lexicon_fit.h"
#include "data/recordings.h"
#include "feat/audio.h"
#include "put_file.h"
#include "temporary_folder.h"
#include "without_programs.h"

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
            "L'\u00c9T\u00c9 \u0391\u03a9 \u0416\u0401 \u017d\u0100 SS");
  o.case_folding = "lower";
  EXPECT_EQ(NormaliseTranscript("\u00c9T\u00c9 \u0391\u03a9 \u0416\u0401 \u017d\u0100 ABC \u0130", o),
            "\u00e9t\u00e9 \u03b1\u03c9 \u0436\u0451 \u017e\u0101 abc i");
}

TEST(Transcripts, OfEveryScriptLoseTheirPunctuation) {
  PrepareOptions o;
  o.strip_punctuation = true;
  EXPECT_EQ(
      NormaliseTranscript("\u0645\u0631\u062d\u0628\u0627\u060c \u0643\u064a\u0641\u061f \u06a9\u06cc\u0627\u06d4", o),
      "\u0645\u0631\u062d\u0628\u0627 \u0643\u064a\u0641 \u06a9\u06cc\u0627");  // Arabic, Urdu
  EXPECT_EQ(NormaliseTranscript("\u0928\u092e\u0938\u094d\u0924\u0947\u0964 \u0939\u0948\u0965", o),
            "\u0928\u092e\u0938\u094d\u0924\u0947 \u0939\u0948");  // Hindi
  EXPECT_EQ(NormaliseTranscript("\u056b\u0576\u0579\u055e\u057a\u0565\u057d\u0589", o),
            "\u056b\u0576\u0579\u057a\u0565\u057d");  // Armenian marks its questions within words
  EXPECT_EQ(NormaliseTranscript("col\u00b7lecci\u00f3 \u00ab\u03c4\u03b9\u00bb \u300c\u8a9e\u300d", o),
            "col\u00b7lecci\u00f3 \u03c4\u03b9 \u8a9e");
}

TEST(Transcripts, TakeOneFormAndOneKindOfBlank) {
  EXPECT_EQ(NormaliseTranscript("\ufeffCafe\u0301\u00a0noir\u3000a\u00adb\u200b", {}), "Caf\u00e9 noir ab");
  PrepareOptions o;
  o.case_folding = "upper";
  EXPECT_EQ(NormaliseTranscript("\u03ba\u03b1\u03bb\u03b7\u03bc\u03ad\u03c1\u03b1 ti\u1ebfng \u0561\u0576", o),
            "\u039a\u0391\u039b\u0397\u039c\u0388\u03a1\u0391 TI\u1ebeNG \u0531\u0546");
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
  EXPECT_THAT(problems_[0].what, HasSubstr("1 audio files without a transcript"));
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
  EXPECT_THAT(problems_[0].where, HasSubstr("t.csv:4"));
  EXPECT_THAT(problems_[0].what, HasSubstr("1 columns; expected at least 2"));
  EXPECT_THAT(problems_[1].where, HasSubstr("t.csv:2"));
  EXPECT_THAT(problems_[1].what, HasSubstr("no audio file 'four.wav'"));
  EXPECT_THAT(problems_[2].what, HasSubstr("transcript of 'ann/two.wav' is empty"));
  EXPECT_THAT(problems_[3].what, HasSubstr("there twice"));
  EXPECT_THAT(problems_[4].what, HasSubstr("'bob/three.flac'"));
  EXPECT_EQ(dir.recordings().size(), 1u);
  EXPECT_THROW(Prepare("u.csv", "four.wav,four\n"), InputError);
  EXPECT_THROW(Prepare("v.csv", ""), InputError);
}

TEST_F(PrepareTest, SaysWhyAFileCannotBeUsed) {
  const testing::WithoutPrograms nothing;  // no ffmpeg
  PutFile(folder_ / "audio/four.m4a", "");
  PutFile(folder_ / "audio/five.wav ", "");
  PutFile(folder_ / "audio/Six.wav", "");
  PutFile(folder_ / "audio/eight .wav", "");
  PutFile(folder_ / "elsewhere/seven.wav", "");
  PutFile(folder_ / "elsewhere/one.wav", "");
  const std::string elsewhere = (folder_ / "elsewhere").string();
  const DataDir dir = Prepare("t.csv", "four.m4a,a\nfour,a\nfive.wav,a\nsix.wav,a\n" + elsewhere + "/seven.wav,a\n" +
                                           elsewhere + "/one.wav,a\n two.wav ,a\nnotes.txt,a\neight,a\neight.wav,a\n");
  ASSERT_EQ(problems_.size(), 10u);
  for (const size_t m4a : {0, 1}) {
    EXPECT_THAT(problems_[m4a].what,
                HasSubstr("'four.m4a' is there, but the format .m4a cannot be read without ffmpeg"));
  }
  EXPECT_THAT(problems_[2].what, HasSubstr("no audio file 'five.wav', but 'five.wav ', with a blank at an end"));
  EXPECT_THAT(problems_[3].what, HasSubstr("no audio file 'six.wav', but 'Six.wav'"));
  EXPECT_THAT(problems_[4].what, HasSubstr("seven.wav' lies outside of the folder"));
  EXPECT_THAT(problems_[5].what, HasSubstr("which holds another file of that name"));
  EXPECT_THAT(problems_[6].what, HasSubstr("'notes.txt' is there, but is no audio file by its name"));
  for (const size_t eight : {7, 8}) {
    EXPECT_THAT(problems_[eight].what, HasSubstr(", but 'eight .wav', with a blank at an end")) << eight;
  }
  ASSERT_EQ(dir.utterances().size(), 1u) << "blanks around a name in the table are no part of it";
  EXPECT_EQ(dir.utterances()[0].utt_id, "two");
}

// From the folder of the audio, as tables often are.
TEST_F(PrepareTest, PathsThatLeadOutOfTheFolderMeanNoFileInIt) {
  PutFile(folder_ / "elsewhere/one.wav", "");
  PutFile(folder_ / "elsewhere/seven.wav", "");
  const DataDir dir =
      Prepare("t.csv", "../elsewhere/seven.wav,a\n../elsewhere/one.wav,a\n/their/machine/one.wav,a\n../two.wav,a\n");
  ASSERT_EQ(problems_.size(), 3u) << "and a file that the table does not name";
  EXPECT_THAT(problems_[0].what, HasSubstr("'../elsewhere/seven.wav' lies outside of the folder"));
  EXPECT_THAT(problems_[1].what, HasSubstr("which holds another file of that name"));
  EXPECT_EQ(dir.utterances().size(), 2u) << "paths of another machine are known by their names";
}

TEST_F(PrepareTest, FindsNamesInTheOtherFormOfUnicode) {
  PutFile(folder_ / "audio/cafe\u0301.wav", "");
  const DataDir dir = Prepare("t.csv", "caf\u00e9.wav,a\n");
  ASSERT_EQ(dir.utterances().size(), 1u);
  EXPECT_EQ(dir.utterances()[0].utt_id, "caf\u00e9");
  EXPECT_TRUE(std::filesystem::exists(dir.ResolveAudio(dir.recordings()[0])));
}

class ChannelTest : public PrepareTest {
 protected:
  ChannelTest() {
    // Two channels of 0.1 s, of different loudness.
    std::string samples;
    for (int i = 0; i < 800; ++i) samples += std::string("\x00\x10\x00\x20", 4);
    const auto number = [](uint32_t value, int bytes) {
      std::string text;
      for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
      return text;
    };
    std::string wav = "RIFF" + number(36 + 3200, 4) + "WAVEfmt " + number(16, 4) + number(1, 2) + number(2, 2) +
                      number(8000, 4) + number(32000, 4) + number(4, 2) + number(16, 2) + "data" + number(3200, 4);
    PutFile(folder_ / "calls/call.wav", wav + samples);
    feat::WriteWav(folder_ / "calls/ann/note.wav", {std::vector<float>(800, 100.0F), 8000});
  }
  float FirstSample(const DataDir& dir, const std::string& utt_id) {
    const AudioSource audio(dir);
    return audio.Read(dir.utterances()[dir.Find(utt_id)]).samples[0];
  }
};

TEST_F(ChannelTest, BecomeUtterancesOfTheirOwnWhenAsked) {
  PrepareOptions options;
  DataDirOfRecordings(folder_ / "calls", options, problems_).Write(folder_ / "mean");
  DataDir dir = DataDir::Load(folder_ / "mean");
  ASSERT_EQ(dir.utterances().size(), 2u);
  EXPECT_EQ(FirstSample(dir, "call"), 6144.0F) << "the mean";
  EXPECT_FALSE(dir.utterances()[0].has_transcript);

  options.channels = "each";
  DataDirOfRecordings(folder_ / "calls", options, problems_).Write(folder_ / "each");
  EXPECT_TRUE(problems_.empty());
  dir = DataDir::Load(folder_ / "each");
  ASSERT_EQ(dir.utterances().size(), 3u);
  EXPECT_EQ(dir.recordings().size(), 2u);
  EXPECT_EQ(FirstSample(dir, "call-A"), 4096.0F);
  EXPECT_EQ(FirstSample(dir, "call-B"), 8192.0F);
  EXPECT_EQ(FirstSample(dir, "note"), 100.0F);
  EXPECT_THAT(dir.speakers(), ElementsAre("call-A", "call-B", "note"));
  const DataSummary summary = Summarise(dir, nullptr);
  EXPECT_EQ(summary.recordings_by_channels.at(2), 1);
  EXPECT_EQ(summary.utterances_of_channels, 2);
  EXPECT_THAT(FormatSummary(Summarise(DataDir::Load(folder_ / "mean"), nullptr)),
              HasSubstr("1 recordings with 2 channels: their mean is taken"));
}

TEST_F(ChannelTest, AreNamedByATable) {
  PutFile(folder_ / "t.csv", "file,channel,text,speaker\ncall.wav,A,one,\ncall.wav,right,two,bob\nnote,,three,\n");
  const DataDir dir = PrepareDataDir(folder_ / "calls", folder_ / "t.csv", {}, problems_);
  EXPECT_TRUE(problems_.empty());
  ASSERT_EQ(dir.utterances().size(), 3u);
  EXPECT_EQ(FirstSample(dir, "bob-call-B"), 8192.0F);
  EXPECT_EQ(FirstSample(dir, "call-A"), 4096.0F);
  PutFile(folder_ / "u.csv", "call.wav,one\nnote,three\n");
  PrepareDataDir(folder_ / "calls", folder_ / "u.csv", {.channels = "each"}, problems_);
  ASSERT_EQ(problems_.size(), 1u);
  EXPECT_THAT(problems_[0].what, HasSubstr("has 2 channels: a column 'channel'"));
}

// As without a table.
TEST_F(ChannelTest, BelongToSpeakersOfTheirOwnWhenNamesTellWhoSpeaks) {
  PutFile(folder_ / "calls/eve/x-1.wav", "");
  PutFile(folder_ / "t.csv",
          "file,channel,text,start\nx-1.wav,A,one,0\nx-1.wav,B,two,0\nx-1.wav,A,three,1\ncall.wav,B,four,0\n");
  const auto speakers = [&](const std::string& from) {
    return PrepareDataDir(folder_ / "calls", folder_ / "t.csv", {.speaker_from = from}, problems_).speakers();
  };
  EXPECT_THAT(speakers("folder"), ElementsAre("call-0000000-B", "eve-A", "eve-B"));
  EXPECT_THAT(speakers("prefix"), ElementsAre("call-B", "x-A", "x-B"));
  PrepareOptions options{.speaker_from = "prefix"};
  options.channels = "each";
  std::filesystem::remove(folder_ / "calls/eve/x-1.wav");
  EXPECT_THAT(DataDirOfRecordings(folder_ / "calls", options, problems_).speakers(),
              ElementsAre("call-A", "call-B", "note"));
}

TEST_F(ChannelTest, OfNoSuchNumberAreRefused) {
  EXPECT_EQ(ParseChannel("b"), 1);
  EXPECT_EQ(ParseChannel("LEFT"), 0);
  EXPECT_EQ(ParseChannel("12"), 12);
  for (const char* bad : {"", "middle", "-1", "1.5"}) EXPECT_THROW(ParseChannel(bad), InputError);
  DataDirOfRecordings(folder_ / "calls", {.channels = "each"}, problems_).Write(folder_ / "each");
  PutFile(folder_ / "each/segments", "call-A call 0 -1 0\ncall-B call 0 -1 2\nnote note 0 -1\n");
  EXPECT_THROW(FirstSample(DataDir::Load(folder_ / "each"), "call-B"), InputError);
  PutFile(folder_ / "each/segments", "call-A call 0 -1 x\n");
  EXPECT_THROW(DataDir::Load(folder_ / "each"), InputError);
}

TEST_F(ChannelTest, RecordingsThatCannotBeReadAreLeftOutByName) {
  const testing::WithoutPrograms nothing;  // no ffmpeg
  PutFile(folder_ / "calls/broken.wav", "no sound");
  PutFile(folder_ / "calls/old.m4a", "");
  DataDirOfRecordings(folder_ / "calls", {}, problems_);
  ASSERT_EQ(problems_.size(), 2u);
  EXPECT_THAT(problems_[0].where, HasSubstr("broken.wav"));
  EXPECT_THAT(problems_[0].what, HasSubstr("cannot be read as audio"));
  EXPECT_THAT(problems_[1].what, HasSubstr("1 files are of formats that cannot be read without ffmpeg (.m4a)"));
  problems_.clear();
  PutFile(folder_ / "t.csv", "call,one\nnote,two\nbroken,three\n");
  const DataDir dir = WithDurations(PrepareDataDir(folder_ / "calls", folder_ / "t.csv", {}, problems_), problems_);
  EXPECT_EQ(dir.utterances().size(), 2u);
  ASSERT_EQ(problems_.size(), 1u);
  EXPECT_THAT(problems_[0].what, HasSubstr("its utterance is left out"));
  EXPECT_NEAR(dir.utterances()[0].duration_s, 0.1, 1e-6);
}

TEST(Spelling, IsAdvisedWhereTheLexiconHasTheWordsInAnother) {
  const auto summary = [](std::vector<std::pair<std::string, int64_t>> oov, int64_t known) {
    DataSummary s;
    s.has_lexicon = true;
    s.oov = std::move(oov);
    for (const auto& [word, count] : s.oov) s.oov_running_words += count;
    s.running_words = s.oov_running_words + known;
    return s;
  };
  const std::set<std::string> lexicon = {"ONE", "TWO", "\u00c9T\u00c9"};
  EXPECT_EQ(AdviseSpelling(summary({{"one", 5}, {"\u00e9t\u00e9", 3}}, 1), lexicon).options, "--case upper");
  EXPECT_NEAR(AdviseSpelling(summary({{"one", 5}, {"x", 3}}, 2), lexicon).known_share, 0.7, 1e-9);
  EXPECT_EQ(AdviseSpelling(summary({{"ONE,", 5}, {"TWO.", 3}}, 1), lexicon).options, "--strip-punctuation");
  EXPECT_EQ(AdviseSpelling(summary({{"one,", 5}, {"two", 3}}, 1), lexicon).options, "--case upper --strip-punctuation");
  EXPECT_EQ(AdviseSpelling(summary({{"three", 5}}, 1), lexicon).options, "");
  EXPECT_TRUE(MostWordsUnknown(summary({{"three", 5}}, 4)));
  EXPECT_FALSE(MostWordsUnknown(summary({{"three", 5}}, 5)));
}

}  // namespace
}  // namespace antiphon::data
