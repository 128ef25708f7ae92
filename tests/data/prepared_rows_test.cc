// Rows and recordings that must not spoil the data directory that is made of them: whatever is written is read again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "data/corpus/corpus_format.h"
#include "data/corpus/lhotse.h"
#include "data/data_summary.h"
#include "data/recordings.h"
#include "data/transcript_table.h"
#include "feat/audio.h"
#include "put_file.h"
#include "temporary_folder.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void PutSound(const fs::path& path, double seconds = 1.0) {
  fs::create_directories(path.parent_path());
  feat::WriteWav(path, {std::vector<float>(static_cast<size_t>(8000 * seconds), 100.0F), 8000});
}

// Two channels of 0.5 s.
void PutStereo(const fs::path& path) {
  const auto number = [](uint32_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
    return text;
  };
  const uint32_t frames = 4000;
  std::string samples;
  for (uint32_t i = 0; i < frames; ++i) samples += number(0x1000, 2) + number(0x2000, 2);
  PutFile(path, "RIFF" + number(36 + 4 * frames, 4) + "WAVEfmt " + number(16, 4) + number(1, 2) + number(2, 2) +
                    number(8000, 4) + number(32000, 4) + number(4, 2) + number(16, 2) + "data" + number(4 * frames, 4) +
                    samples);
}

class PreparedRows : public ::testing::Test {
 protected:
  DataDir OfTable(std::string_view table) {
    problems_.clear();
    PutFile(folder_ / "t.csv", table);
    return PrepareDataDir(folder_ / "audio", folder_ / "t.csv", {}, problems_);
  }
  DataDir OfCorpus(const std::string& layout, const fs::path& place) {
    problems_.clear();
    const Corpus corpus = CorpusFormatRegistry::Get().Create(layout)->Read(place, "", problems_);
    return JoinTranscripts(corpus.audio, corpus.rows, layout, {}, problems_);
  }
  // As antiphon prepare writes it, and as the commands that follow see it.
  DataDir Written(DataDir dir) {
    WithDurations(std::move(dir), problems_).Write(folder_ / "out");
    for (const DataProblem& problem : DataDir::Validate(folder_ / "out", {}, true)) {
      if (problem.what.starts_with("there are no transcripts")) continue;
      ADD_FAILURE() << problem.where << ": " << problem.what;
    }
    return DataDir::Load(folder_ / "out");
  }
  static std::string FileOf(const DataDir& dir, const std::string& utt_id) {
    return dir.ResolveAudio(dir.recordings()[dir.utterances()[dir.Find(utt_id)].recording]).filename().string();
  }
  static std::vector<std::string> Ids(const DataDir& dir) {
    std::vector<std::string> ids;
    for (const Utterance& u : dir.utterances()) ids.push_back(u.utt_id);
    return ids;
  }

  ::antiphon::testing::TemporaryFolder folder_;
  std::vector<DataProblem> problems_;
};

TEST_F(PreparedRows, BehindTheEndOfTheirAudioAreLeftOut) {
  PutSound(folder_ / "audio/talk.wav");
  const DataDir dir =
      Written(OfTable("file,start,end,text\ntalk,0.25,0.75,ONE\ntalk,12,13,TWO\ntalk,1,,THREE\ntalk,0.99995,,FOUR\n"));
  EXPECT_THAT(Ids(dir), ElementsAre("talk-0000025"));
  ASSERT_EQ(problems_.size(), 3u);
  std::string said;
  for (const DataProblem& problem : problems_) {
    EXPECT_THAT(problem.where, HasSubstr("talk.wav"));
    EXPECT_THAT(problem.what, HasSubstr("it is left out"));
    said += problem.what + "\n";
  }
  EXPECT_THAT(said, HasSubstr("begins at 12.000 s, behind the end of its recording (1.000 s)"));
  EXPECT_THAT(said, HasSubstr("begins at 1.000 s, behind"));
  EXPECT_THAT(said, HasSubstr("lasts less than 0.0001 s"));
}

TEST_F(PreparedRows, OfWhichNoneLiesInItsAudioAreAnError) {
  PutSound(folder_ / "audio/talk.wav");
  try {
    WithDurations(OfTable("file,start,end,text\ntalk,12,13,ONE\n"), problems_);
    FAIL() << "nothing was thrown";
  } catch (const InputError& e) {
    EXPECT_THAT(e.message(), AllOf(HasSubstr("not one of 1 utterances"), HasSubstr("behind the end")));
  }
}

TEST_F(PreparedRows, WithZeroBytesAreLeftOut) {
  using namespace std::string_literals;
  const fs::path audio = folder_ / "audio";
  for (const char* name : {"one.wav", "two.wav"}) PutSound(audio / name);
  PutFile(audio / "one.lab", "ONE");
  PutFile(audio / "two.lab", "T\0WO"s);
  PutFile(audio / "m.json", R"({"audio_filepath": "one.wav", "text": "ONE"})"
                            "\n"
                            R"({"audio_filepath": "two.wav", "text": "T\u0000WO"})"
                            "\n");
  PutFile(audio / "x.stm", "one 1 ann 0 1 ONE\ntwo 1 ann 0 1 T\0WO\n"s);
  const std::map<std::string, std::function<DataDir()>> sources = {
      {"csv", [&] { return OfTable("one.wav,ONE\ntwo.wav,T\0WO\n"s); }},
      {"mfa", [&] { return OfCorpus("mfa", audio); }},
      {"nemo", [&] { return OfCorpus("nemo", audio / "m.json"); }},
      {"stm", [&] { return OfCorpus("stm", audio / "x.stm"); }}};
  for (const auto& [name, read] : sources) {
    const DataDir dir = Written(read());
    ASSERT_EQ(dir.utterances().size(), 1u) << name;
    EXPECT_THAT(dir.utterances()[0].words, ElementsAre("ONE")) << name;
    ASSERT_FALSE(problems_.empty()) << name;
    EXPECT_THAT(problems_[0].what, HasSubstr("a zero byte")) << name;
  }
}

TEST_F(PreparedRows, WithANegativeEndGoToTheEnd) {
  PutSound(folder_ / "nemo/call.wav", 2.0);
  PutFile(folder_ / "nemo/m.json", R"({"audio_filepath": "call.wav", "text": "ONE", "offset": 0.5, "duration": -1})"
                                   "\n"
                                   R"({"audio_filepath": "call.wav", "text": "TWO", "offset": 1.5, "duration": -1})"
                                   "\n");
  PutSound(folder_ / "stm/call.wav", 2.0);
  PutFile(folder_ / "stm/x.stm", "call 1 ann 0.5 -3.0 ONE\ncall 1 ann 1.5 -1 TWO\n");
  for (const char* layout : {"nemo", "stm"}) {
    const DataDir dir = Written(OfCorpus(layout, folder_ / layout));
    EXPECT_TRUE(problems_.empty()) << layout;
    ASSERT_EQ(dir.utterances().size(), 2u) << layout;
    for (const Utterance& u : dir.utterances()) {
      EXPECT_EQ(u.end_s, -1.0) << layout;
      EXPECT_DOUBLE_EQ(u.duration_s, 2.0 - u.start_s) << layout;
    }
  }
}

TEST_F(PreparedRows, OfLhotseThatEndBeforeTheyBeginAreLeftOut) {
  PutSound(folder_ / "audio/call.wav", 2.0);
  PutFile(folder_ / "audio/recordings.jsonl",
          R"({"id": "call", "sources": [{"type": "file", "channels": [0], "source": "call.wav"}], "duration": 2.0})"
          "\n");
  PutFile(folder_ / "audio/supervisions.jsonl",
          R"({"id": "a", "recording_id": "call", "start": 0.5, "duration": 1.0, "text": "ONE"})"
          "\n"
          R"({"id": "b", "recording_id": "call", "start": 0.5, "duration": -1.0, "text": "TWO"})"
          "\n");
  EXPECT_THAT(Ids(Written(OfCorpus("lhotse", folder_ / "audio"))), ElementsAre("a"));
  ASSERT_EQ(problems_.size(), 1u);
  EXPECT_THAT(problems_[0].what, HasSubstr("expected start and end in seconds"));
}

TEST_F(PreparedRows, TakeAnyNegativeEndAndNoDurationOfNothing) {
  PutSound(folder_ / "audio/talk.wav");
  DataDir dir;
  const size_t talk = dir.AddRecording({"talk", fs::absolute(folder_ / "audio/talk.wav").string(), 0});
  dir.AddUtterance({.utt_id = "a", .speaker = "a", .words = {}, .recording = talk, .start_s = 0.25, .end_s = -0.5});
  dir.AddUtterance({.utt_id = "b", .speaker = "b", .words = {}, .recording = talk, .duration_s = 0.00002});
  dir.Write(folder_ / "out");
  const DataDir again = DataDir::Load(folder_ / "out");
  EXPECT_THAT(Ids(again), ElementsAre("a", "b"));
  EXPECT_EQ(again.utterances()[0].end_s, -1.0);
  EXPECT_EQ(again.utterances()[1].duration_s, -1.0);
}

TEST_F(PreparedRows, OfFilesWithOneIdKeepTheirAudio) {
  for (const char* name : {"a b.wav", "a_b.wav", "x/1.wav", "y/1.wav", "x_1.wav"}) PutSound(folder_ / "audio" / name);
  const DataDir dir = Written(
      OfTable("file,start,end,text\na b.wav,0,0.5,YES\na_b.wav,0,0.5,YES\na b.wav,0.5,1,ONE\na_b.wav,0.5,1,TWO\n"
              "x/1.wav,0,1,THREE\ny/1.wav,0,1,FOUR\nx_1.wav,0,1,FIVE\n"));
  EXPECT_TRUE(problems_.empty());
  EXPECT_EQ(dir.recordings().size(), 5u);
  EXPECT_EQ(FileOf(dir, "a_b-0000000"), "a b.wav");
  EXPECT_EQ(FileOf(dir, "a_b-0000000-2"), "a_b.wav");
  EXPECT_EQ(FileOf(dir, "a_b-0000050"), "a b.wav");
  EXPECT_EQ(FileOf(dir, "a_b-0000050-2"), "a_b.wav");
  EXPECT_EQ(FileOf(dir, "x_1-0000000"), "1.wav");
  EXPECT_EQ(FileOf(dir, "x_1-0000000-2"), "x_1.wav");
  EXPECT_EQ(FileOf(dir, "y_1-0000000"), "1.wav");
}

TEST_F(PreparedRows, HaveOneRecordingForAnId) {
  DataDir dir;
  EXPECT_EQ(dir.AddRecording({"a", "/x/a.wav", 0}), 0u);
  EXPECT_EQ(dir.AddRecording({"b", "/x/b.wav", 0}), 1u);
  EXPECT_EQ(dir.AddRecording({"a", "/x/a.wav", 0}), 0u);
  EXPECT_THROW(dir.AddRecording({"b", "/y/b.wav", 0}), InputError);
  EXPECT_EQ(dir.recordings().size(), 2u);
  dir.AddUtterance({.utt_id = "b", .speaker = "b", .words = {}, .recording = 1});
  DataDir part = dir.Subset({0});
  EXPECT_EQ(part.AddRecording({"b", "/x/b.wav", 0}), 0u);
  EXPECT_THROW(part.AddRecording({"b", "/y/b.wav", 0}), InputError);
}

class PreparedRecordings : public PreparedRows {
 protected:
  DataDir OfRecordings(const std::string& place, const PrepareOptions& options = {}) {
    problems_.clear();
    return DataDirOfRecordings(folder_ / place, options, problems_);
  }
};

TEST_F(PreparedRecordings, OfOneIdAreReportedAndKeepTheirAudio) {
  for (const char* name : {"blank/a b.wav", "blank/a_b.wav", "path/x/1.wav", "path/x_1.wav", "path/y/1.wav"}) {
    PutSound(folder_ / name);
  }
  DataDir dir = Written(OfRecordings("blank"));
  EXPECT_THAT(Ids(dir), ElementsAre("a_b"));
  EXPECT_EQ(FileOf(dir, "a_b"), "a b.wav");
  ASSERT_EQ(problems_.size(), 1u);
  EXPECT_THAT(problems_[0].where, HasSubstr("a_b.wav"));
  EXPECT_THAT(problems_[0].what, AllOf(HasSubstr("a b.wav' is"), HasSubstr("it is left out")));
  dir = Written(OfRecordings("path"));
  EXPECT_THAT(Ids(dir), ElementsAre("x_1", "y_1"));
  EXPECT_EQ(FileOf(dir, "x_1"), "1.wav");
  EXPECT_EQ(problems_.size(), 1u);
}

TEST_F(PreparedRecordings, OfSpeakersByFolderHaveIdsOfTheirOwn) {
  for (const char* name :
       {"good/ann/one.wav", "same/p/a b.wav", "same/q/a_b.wav", "joined/a-b/c.wav", "joined/a/b-c.wav"}) {
    PutSound(folder_ / name);
  }
  const PrepareOptions by_folder{.speaker_from = "folder"};
  DataDir dir = Written(OfRecordings("good", by_folder));
  EXPECT_THAT(Ids(dir), ElementsAre("ann-one")) << "though the recording has another name";
  EXPECT_THAT(dir.speakers(), ElementsAre("ann"));
  dir = Written(OfRecordings("same", by_folder));
  EXPECT_EQ(FileOf(dir, "p-a_b"), "a b.wav");
  ASSERT_EQ(problems_.size(), 1u);
  EXPECT_THAT(problems_[0].what, AllOf(HasSubstr("the id 'a_b' would mean both"), HasSubstr("it is left out")));
  dir = OfRecordings("joined", by_folder);
  EXPECT_THAT(Ids(dir), ElementsAre("a-b-c"));
  EXPECT_EQ(dir.recordings().size(), 1u) << "none stays without its utterance";
  EXPECT_EQ(problems_.size(), 1u);
}

TEST_F(PreparedRecordings, WithoutSamplesAreLeftOut) {
  PutSound(folder_ / "calls/empty.wav", 0.0);
  PutSound(folder_ / "calls/whole.wav");
  OfRecordings("calls").Write(folder_ / "out");
  EXPECT_THAT(Ids(DataDir::Load(folder_ / "out")), ElementsAre("whole"));
  ASSERT_EQ(problems_.size(), 1u);
  EXPECT_THAT(problems_[0].what, HasSubstr("it holds no samples; it is left out"));
}

TEST_F(PreparedRows, OfVoxForgeAreKeptWhateverTheGenderIsCalled) {
  const std::map<std::string, std::string> genders = {
      {"ann", "Weiblich"}, {"bob", "male"}, {"eva", "\u017Be\u0144ska"}, {"ivo", "\xe9"}, {"pat", ""}};
  for (const auto& [name, gender] : genders) {
    PutSound(folder_ / ("corpus/" + name + "-1/wav/a1.wav"));
    PutFile(folder_ / ("corpus/" + name + "-1/etc/PROMPTS"), "a1 ONE\n");
    PutFile(folder_ / ("corpus/" + name + "-1/etc/README"), "Gender: " + gender + "\n");
  }
  const DataDir dir = Written(OfCorpus("voxforge", folder_ / "corpus"));
  for (const DataProblem& problem : problems_) ADD_FAILURE() << problem.where << ": " << problem.what;
  EXPECT_EQ(dir.utterances().size(), 5u);
  EXPECT_EQ(dir.gender(), (std::map<std::string, std::string>{{"ann", "f"}, {"bob", "m"}}));
}

TEST_F(PreparedRows, OfTheMeanOfChannelsSurviveLhotse) {
  PutStereo(folder_ / "audio/call.wav");
  const fs::path manifests = folder_ / "manifests";
  WriteLhotse(OfTable("file,channel,text\ncall,,BOTH\ncall,B,RIGHT\n"), manifests);
  const std::string supervisions = ReadFile(manifests / "supervisions.jsonl");
  const size_t second = supervisions.find('\n') + 1;
  const auto channel = [&](size_t begin, size_t count) {
    return nlohmann::json::parse(supervisions.substr(begin, count)).at("channel");
  };
  EXPECT_EQ(channel(0, second), nlohmann::json({0, 1}));
  EXPECT_EQ(channel(second, std::string::npos), nlohmann::json(1));

  const DataDir numbers = OfCorpus("lhotse", manifests);
  EXPECT_TRUE(problems_.empty());
  std::string in_list = supervisions;
  const std::string number = R"("channel":1)";
  ASSERT_NE(in_list.find(number), std::string::npos);
  PutFile(manifests / "supervisions.jsonl", in_list.replace(in_list.find(number), number.size(), R"("channel":[1])"));
  for (const DataDir& back : {numbers, OfCorpus("lhotse", manifests)}) {
    EXPECT_TRUE(problems_.empty());
    ASSERT_THAT(Ids(back), ElementsAre("call", "call-B"));
    EXPECT_EQ(back.utterances()[0].channel, -1);
    EXPECT_EQ(back.utterances()[1].channel, 1);
  }
}

}  // namespace
}  // namespace antiphon::data
