#include "data/audio_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "data/data_summary.h"
#include "oracle.h"
#include "put_file.h"
#include "temporary_folder.h"

namespace antiphon::data {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class AudioSourceTest : public ::testing::Test {
 protected:
  AudioSourceTest() {
    feat::Waveform wave;
    wave.sample_rate_hz = 8000;
    for (int i = 0; i < 16000; ++i) wave.samples.push_back(static_cast<float>(i % 100));
    feat::WriteWav(folder_ / "a.wav", wave);
    const std::string bytes = ReadFile(folder_ / "a.wav");
    Put("x.ark", "first " + bytes + "second " + bytes);
    Put("data/wav.scp", "r1 a.wav\nr2 x.ark:6\nr3 cat '" + (folder_ / "a.wav").string() + "' |\n");
    Put("data/text", "r1 ONE\nr2 TWO TWO\nr3 THREE\n");
    Put("data/utt2spk", "r1 s\nr2 s\nr3 s\n");
  }
  void Put(const std::string& name, std::string_view bytes) const { PutFile(folder_ / name, bytes); }
  ::antiphon::testing::TemporaryFolder folder_;
};

TEST_F(AudioSourceTest, ReadsFilesArchivesAndCommands) {
  const DataDir dir = DataDir::Load(folder_ / "data", {.audio_root = {}, .allow_commands = true});
  const AudioSource audio(dir);
  for (const Utterance& u : dir.utterances()) {
    const feat::Waveform wave = audio.Read(u);
    EXPECT_EQ(wave.sample_rate_hz, 8000);
    ASSERT_EQ(wave.samples.size(), 16000u) << u.utt_id;
    EXPECT_EQ(wave.samples[199], 99.0f);
  }
}

TEST_F(AudioSourceTest, RunsNoCommandUnlessAllowed) {
  const fs::path canary = folder_ / "canary";
  Put("data/wav.scp", "r1 a.wav\nr2 x.ark:6\nr3 touch '" + canary.string() + "' |\n");
  EXPECT_THROW(DataDir::Load(folder_ / "data"), InputError);
  EXPECT_FALSE(DataDir::Validate(folder_ / "data", {}, true).empty());
  EXPECT_FALSE(fs::exists(canary));
  const DataDir dir = DataDir::Load(folder_ / "data", {.audio_root = {}, .allow_commands = true});
  EXPECT_THROW(AudioSource(dir).Read(dir.utterances()[2]), InputError);  // it writes no audio
  EXPECT_TRUE(fs::exists(canary));
}

TEST_F(AudioSourceTest, NamesWhatIsWrongWithARecording) {
  Put("data/wav.scp", "r1 a.wav\nr2 x.ark:99999999\nr3 false |\n");
  const DataDir dir = DataDir::Load(folder_ / "data", {.audio_root = {}, .allow_commands = true});
  const AudioSource audio(dir);
  const auto message = [&](size_t u) {
    try {
      audio.Read(dir.utterances()[u]);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_THAT(message(1),
              AllOf(HasSubstr("utterance 'r2'"), HasSubstr("wav.scp:2"), HasSubstr("has no byte 99999999")));
  EXPECT_THAT(message(2), AllOf(HasSubstr("wav.scp:3"), HasSubstr("exit status 1")));
}

TEST_F(AudioSourceTest, ChecksAndSummarises) {
  Put("data/wav.scp", "r1 a.wav\nr2 missing.wav\nr3 a.wav\n");
  Put("data/segments", "u1 r1 0.0 1.0\nu2 r3 0.5 9.0\nu3 r2 0 1\nu4 r1 1.0 2.25\n");
  Put("data/text", "u1 ONE TWO ONE\nu2 TWO\nu4 THREE\n");
  Put("data/utt2spk", "u1 s\nu2 s\nu3 t\nu4 t\n");
  std::string all;
  for (const DataProblem& p : DataDir::Validate(folder_ / "data", {}, true)) all += p.where + ": " + p.what + "\n";
  EXPECT_THAT(all, HasSubstr("missing.wav"));
  EXPECT_THAT(all, HasSubstr("utterance 'u2' from 0.5 s to 9 s reaches past the end"));
  EXPECT_THAT(all, HasSubstr("1 utterances without a transcript; training leaves them out: 'u3'"));
  EXPECT_EQ(all.find("'u4'"), std::string::npos) << all;

  const std::set<std::string> lexicon = {"ONE"};
  const DataSummary s = Summarise(DataDir::Load(folder_ / "data"), &lexicon);
  EXPECT_EQ(s.utterances, 4);
  EXPECT_EQ(s.speakers, 2);
  EXPECT_EQ(s.unreadable_recordings, 1);
  EXPECT_EQ(s.recordings_by_rate.at(8000), 2);
  EXPECT_NEAR(s.seconds, 1.0 + 1.5 + 1.0, 1e-9);
  EXPECT_EQ(s.running_words, 5);
  EXPECT_EQ(s.vocabulary, 3);
  ASSERT_EQ(s.oov.size(), 2u);
  EXPECT_EQ(s.oov[0], (std::pair<std::string, int64_t>("TWO", 2)));
  EXPECT_THAT(FormatSummary(s), HasSubstr("out of the lexicon: 2 words, 3 running words (60.00 %)"));
}

TEST(DataDirValidate, FindsNothingInTheSharedSets) {
  for (const std::string name : {"data/fsdd/data/test", "data/minilibri/data/dev"}) {
    const auto folder = SharedDir(name);
    if (!folder) GTEST_SKIP() << "no shared data";
    for (const DataProblem& p : DataDir::Validate(*folder, {}, true)) ADD_FAILURE() << p.where << ": " << p.what;
  }
}

}  // namespace
}  // namespace antiphon::data
