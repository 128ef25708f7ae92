#include "data/data_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>

#include "base/error.h"
#include "base/file.h"
#include "data/data_summary.h"
#include "data/text_table.h"
#include "oracle.h"
#include "put_file.h"
#include "temporary_folder.h"

namespace antiphon::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class DataDirTest : public ::testing::Test {
 protected:
  DataDirTest() {
    Put("audio/r1.wav", "");
    Put("audio/r2.wav", "");
    Put("train/wav.scp", "r1 audio/r1.wav\nr2 audio/r2.wav\n");
    Put("train/segments", "a-1 r1 0.0 1.5\na-2 r1 1.5 3.0\nb-1 r2 0.5 -1\n");
    Put("train/text", "a-1 ONE TWO\na-2 THREE\nb-1 FOUR\n");
    Put("train/utt2spk", "a-1 a\na-2 a\nb-1 b\n");
    Put("train/spk2gender", "a m\nb f\n");
  }
  void Put(const std::string& name, std::string_view bytes) const { PutFile(folder_ / name, bytes); }
  fs::path Train() const { return folder_ / "train"; }
  std::string LoadMessage(const DataDirOptions& options = {}) const {
    try {
      DataDir::Load(Train(), options);
    } catch (const InputError& e) {
      return e.what();
    }
    return "nothing was thrown";
  }
  ::antiphon::testing::TemporaryFolder folder_;
};

TEST_F(DataDirTest, JoinsItsFiles) {
  const DataDir dir = DataDir::Load(Train());
  ASSERT_EQ(dir.utterances().size(), 3u);
  EXPECT_EQ(dir.utterances()[0].utt_id, "a-1");
  EXPECT_THAT(dir.utterances()[0].words, ElementsAre("ONE", "TWO"));
  EXPECT_EQ(dir.utterances()[1].start_s, 1.5);
  EXPECT_EQ(dir.utterances()[2].end_s, -1.0);
  EXPECT_EQ(dir.utterances()[2].speaker, "b");
  EXPECT_THAT(dir.speakers(), ElementsAre("a", "b"));
  EXPECT_EQ(dir.gender().at("b"), "f");
  EXPECT_EQ(dir.Find("b-1"), 2u);
  EXPECT_THROW(dir.Find("c-1"), InputError);
  EXPECT_TRUE(fs::equivalent(dir.ResolveAudio(dir.recordings()[0]), folder_ / "audio/r1.wav"));
}

TEST_F(DataDirTest, SurvivesWriting) {
  DataDir::Load(Train()).Write(folder_ / "copy/deeper/and/deeper", true);
  const DataDir copy = DataDir::Load(folder_ / "copy/deeper/and/deeper");
  const DataDir dir = DataDir::Load(Train());
  ASSERT_EQ(copy.utterances().size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(copy.utterances()[i].utt_id, dir.utterances()[i].utt_id);
    EXPECT_EQ(copy.utterances()[i].words, dir.utterances()[i].words);
    EXPECT_EQ(copy.utterances()[i].start_s, dir.utterances()[i].start_s);
    EXPECT_EQ(copy.utterances()[i].speaker, dir.utterances()[i].speaker);
  }
  EXPECT_EQ(copy.gender(), dir.gender());
  EXPECT_TRUE(fs::equivalent(copy.ResolveAudio(copy.recordings()[1]), folder_ / "audio/r2.wav"));
}

TEST_F(DataDirTest, RefusesWhatIsBrokenWithFileAndLine) {
  Put("train/wav.scp", "r1 audio/r1.wav\nr1 audio/r2.wav\n");
  EXPECT_THAT(LoadMessage(), AllOf(HasSubstr("wav.scp:2"), HasSubstr("'r1' is there twice (first in line 1)")));
  Put("train/wav.scp", "r1 audio/r1.wav\nr2\n");
  EXPECT_THAT(LoadMessage(), AllOf(HasSubstr("wav.scp:2"), HasSubstr("path is missing")));
  Put("train/wav.scp", "r1 audio/r1.wav\nr2 sox x -t wav - |\n");
  EXPECT_THAT(LoadMessage(), AllOf(HasSubstr("wav.scp:2"), HasSubstr("--allow-commands")));
  EXPECT_EQ(LoadMessage({.audio_root = {}, .allow_commands = true}), "nothing was thrown");
  Put("train/wav.scp", "");
  EXPECT_THAT(LoadMessage(), HasSubstr("the file is empty"));
  Put("train/wav.scp", "r1 audio/r1.wav\nr2 audio/r2.wav\n");
  Put("train/segments", "a-1 r1 0.0 1.5\na-2 r1 x 3.0\n");
  EXPECT_THAT(LoadMessage(), AllOf(HasSubstr("segments:2"), HasSubstr("expected UTTERANCE RECORDING START END")));
  Put("train/segments", "a-1 r1 2.0 1.5\n");
  EXPECT_THAT(LoadMessage(), AllOf(HasSubstr("segments:1"), HasSubstr("is empty")));
  Put("train/segments", "a-1 r1 0.0 1.5\n");
  Put("train/text", "a-1 caf\xe9\n");
  EXPECT_THAT(LoadMessage(), AllOf(HasSubstr("text:1"), HasSubstr("no UTF-8")));
  fs::remove(Train() / "wav.scp");
  EXPECT_THAT(LoadMessage(), HasSubstr("no wav.scp"));
}

TEST_F(DataDirTest, TakesWindowsTextFiles) {
  Put("train/text",
      "\xef\xbb\xbf"
      "a-1 ONE TWO\r\na-2 THREE\r\nb-1 FOUR\r\n");
  const DataDir dir = DataDir::Load(Train());
  EXPECT_THAT(dir.utterances()[0].words, ElementsAre("ONE", "TWO"));
}

TEST_F(DataDirTest, BlanksOfAnyKindMayStandAroundFields) {
  Put("train/text", "\f a-1\t ONE TWO \v\f\r\na-2\vTHREE\t\nb-1 FOUR\n");
  const DataDir dir = DataDir::Load(Train());
  EXPECT_EQ(dir.utterances()[0].utt_id, "a-1");
  EXPECT_THAT(dir.utterances()[0].words, ElementsAre("ONE", "TWO"));
  EXPECT_THAT(dir.utterances()[1].words, ElementsAre("THREE"));
}

TEST_F(DataDirTest, NamesEveryPlaceWhereAudioWasLookedFor) {
  fs::remove(folder_ / "audio/r1.wav");
  const DataDir dir = DataDir::Load(Train());
  try {
    dir.ResolveAudio(dir.recordings()[0]);
    ADD_FAILURE();
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("there is no audio file"), HasSubstr((folder_ / "audio/r1.wav").string()),
                                HasSubstr("--audio-root")));
  }
  Put("elsewhere/audio/r1.wav", "");
  const DataDir rooted = DataDir::Load(Train(), {.audio_root = (folder_ / "elsewhere").string()});
  EXPECT_TRUE(fs::equivalent(rooted.ResolveAudio(rooted.recordings()[0]), folder_ / "elsewhere/audio/r1.wav"));
}

TEST_F(DataDirTest, SplitsBySpeaker) {
  const auto [rest, held] = DataDir::Load(Train()).SplitBySpeaker(0.3, 1);
  EXPECT_EQ(rest.speakers().size(), 1u);
  EXPECT_EQ(held.speakers().size(), 1u);
  EXPECT_NE(rest.speakers(), held.speakers());
  EXPECT_EQ(rest.utterances().size() + held.utterances().size(), 3u);
  for (const Utterance& u : held.utterances()) EXPECT_LT(u.recording, held.recordings().size());
}

TEST_F(DataDirTest, LoadsTheSharedSets) {
  for (const std::string name : {"data/fsdd/data/train", "data/minilibri/data/dev"}) {
    const auto folder = SharedDir(name);
    if (!folder) GTEST_SKIP() << "no shared data";
    const DataDir dir = DataDir::Load(*folder);
    EXPECT_GT(dir.utterances().size(), 100u);
    for (const Recording& r : dir.recordings()) EXPECT_TRUE(fs::exists(dir.ResolveAudio(r)));
  }
}

TEST_F(DataDirTest, WordsInTwoFormsOfUnicodeAreOneWord) {
  Put("wav.scp", "a a.wav\nb b.wav\n");
  Put("utt2spk", "a s\nb s\n");
  Put("text", "a Caf\u00e9\nb Cafe\u0301\n");
  const DataDir dir = DataDir::Load(folder_.path());
  EXPECT_EQ(dir.utterances()[0].words, dir.utterances()[1].words);
  EXPECT_EQ(dir.utterances()[1].words, std::vector<std::string>{"Caf\u00e9"});
  Put("lexicon.txt", "Cafe\u0301 K AE F EY\n");
  EXPECT_EQ(ReadLexiconWords(folder_ / "lexicon.txt"), std::set<std::string>{"Caf\u00e9"});
}

TEST_F(DataDirTest, NeverCrashesOnDamagedFiles) {
  EXPECT_TRUE(rc::check("loads or says what is wrong", [&] {
    static const std::vector<std::string> kFiles = {"wav.scp", "segments", "text", "utt2spk", "spk2gender"};
    const std::string name = *rc::gen::elementOf(kFiles);
    const std::string whole = ReadFile(Train() / name);
    std::string bytes = whole;
    bytes[*rc::gen::inRange<size_t>(0, bytes.size())] = *rc::gen::arbitrary<char>();
    bytes.resize(*rc::gen::inRange<size_t>(0, bytes.size() + 1));
    Put("train/" + name, bytes);
    try {
      DataDir::Load(Train());
    } catch (const InputError&) {
    }
    Put("train/" + name, whole);
  }));
}

}  // namespace
}  // namespace antiphon::data
