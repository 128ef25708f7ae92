// Every registered layout of a corpus against one and the same corpus: three utterances of two speakers, in scripts
// that have several forms. A new layout needs an excerpt here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/gzip.h"
#include "data/corpus/corpus_format.h"
#include "data/corpus/lhotse.h"
#include "data/text_grid.h"
#include "data/transcript_table.h"
#include "feat/audio.h"
#include "put_file.h"
#include "temporary_folder.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;
using ::antiphon::testing::TemporaryFolder;
using ::testing::HasSubstr;

// "café" with a combining accent and as one letter; Greek, Devanagari and Arabic.
constexpr const char* kCafe = "un cafe\u0301";
constexpr const char* kCafeRead = "un caf\u00e9";
constexpr const char* kGreek = "καλημέρα κόσμε";
constexpr const char* kMixed = "नमस्ते مرحبا";

void PutSound(const fs::path& path, double seconds = 1.0) {
  fs::create_directories(path.parent_path());
  feat::Waveform wave;
  wave.sample_rate_hz = 8000;
  wave.samples.assign(static_cast<size_t>(8000 * seconds), 100.0F);
  feat::WriteWav(path, wave);
}

// What a layout says of the corpus.
struct Excerpt {
  std::function<void(const fs::path& folder)> put;  // below it, the whole corpus
  std::string manifest;                             // that a damage is done to
  std::string part = "";
  bool has_speakers = true;
};

void PutThree(const fs::path& folder) {
  for (const char* name : {"ann-1.wav", "ann-2.wav", "bob-1.wav"}) PutSound(folder / name);
}

const std::map<std::string, Excerpt>& Excerpts() {
  static const std::map<std::string, Excerpt> excerpts = {
      {"common-voice",
       {[](const fs::path& f) {
          PutThree(f / "clips");
          PutFile(f / "validated.tsv", fmt::format("client_id\tpath\tsentence\tup_votes\tgender\n"
                                                   "ann\tann-1.wav\t{}\t2\tfemale_feminine\nann\tann-2.wav\t{}\t2\t\n"
                                                   "bob\tbob-1.wav\t{}\t3\tmale_masculine\n",
                                                   kCafe, kGreek, kMixed));
          // What else a release holds.
          for (const char* name : {"invalidated", "other", "train", "dev", "test"}) {
            PutFile(f / (std::string(name) + ".tsv"), fmt::format("client_id\tpath\tsentence\nx\tx.mp3\t{}\n", name));
          }
          PutFile(f / "clip_durations.tsv", "clip\tduration[ms]\nann-1.wav\t1000\n");
          PutFile(f / "reported.tsv", "sentence_id\tsentence\tlocale\treason\n");
          PutFile(f / "validated_sentences.tsv", "sentence_id\tsentence\n");
          PutFile(f / "unvalidated_sentences.tsv", "sentence_id\tsentence\n");
        },
        "validated.tsv"}},
      {"audiofolder",
       {[](const fs::path& f) {
          PutThree(f / "test");
          PutFile(f / "test/metadata.jsonl",
                  fmt::format("{{\"file_name\": \"ann-1.wav\", \"transcription\": \"{}\", \"speaker_id\": \"ann\"}}\n"
                              "{{\"file_name\": \"ann-2.wav\", \"transcription\": \"{}\", \"speaker_id\": \"ann\"}}\n"
                              "{{\"file_name\": \"bob-1.wav\", \"transcription\": \"{}\", \"speaker_id\": \"bob\"}}\n",
                              kCafe, kGreek, kMixed));
        },
        "test/metadata.jsonl", "test"}},
      {"ljspeech",
       {[](const fs::path& f) {
          PutThree(f / "wavs");
          PutFile(f / "metadata.csv", fmt::format("ann-1|1 café|{}\nann-2|{}|\nbob-1|\"|{}\n", kCafe, kGreek, kMixed));
        },
        "metadata.csv", "", false}},
      {"nemo",
       {[](const fs::path& f) {
          PutThree(f / "audio");
          const std::string absolute = fs::absolute(f / "audio/bob-1.wav").string();
          PutFile(f / "manifest.json",
                  fmt::format("{{\"audio_filepath\": \"audio/ann-1.wav\", \"text\": \"{}\", \"duration\": 1.0, "
                              "\"speaker\": \"ann\"}}\n"
                              "{{\"audio_filepath\": \"ann-2.wav\", \"text\": \"{}\", \"speaker\": \"ann\"}}\n"
                              "{{\"audio_filepath\": \"{}\", \"text\": \"{}\", \"speaker\": \"bob\"}}\n",
                              kCafe, kGreek, absolute, kMixed));
        },
        "manifest.json"}},
      {"espnet",
       {[](const fs::path& f) {
          PutThree(f / "wav");
          nlohmann::json utts;
          const auto add = [&](const char* id, const char* speaker, const char* text, nlohmann::json input) {
            utts[id] = {{"input", nlohmann::json::array({std::move(input)})},
                        {"output", {{{"name", "target1"}, {"text", text}}}},
                        {"utt2spk", speaker}};
          };
          add("ann-1", "ann", kCafe, {{"feat", "wav/ann-1.wav"}, {"filetype", "sound"}});
          add("ann-2", "ann", kGreek, {{"feat", "dump/feats.1.ark:14"}});
          add("bob-1", "bob", kMixed, {{"feat", "wav/bob-1.wav"}, {"filetype", "sound"}});
          PutFile(f / "data.json", nlohmann::json{{"utts", utts}}.dump());
        },
        "data.json"}},
      {"lhotse",
       {[](const fs::path& f) {
          PutThree(f / "audio");
          std::string recordings, supervisions;
          const auto add = [&](const char* id, const char* speaker, const char* text) {
            recordings +=
                nlohmann::json{
                    {"id", id},
                    {"sources",
                     {{{"type", "file"}, {"channels", {0}}, {"source", std::string("audio/") + id + ".wav"}}}},
                    {"sampling_rate", 8000},
                    {"num_samples", 8000},
                    {"duration", 1.0}}
                    .dump() +
                "\n";
            supervisions += nlohmann::json{{"id", id},     {"recording_id", id}, {"start", 0.0},      {"duration", 1.0},
                                           {"channel", 0}, {"text", text},       {"speaker", speaker}}
                                .dump() +
                            "\n";
          };
          add("ann-1", "ann", kCafe);
          add("ann-2", "ann", kGreek);
          add("bob-1", "bob", kMixed);
          PutFile(f / "mine_recordings_train.jsonl.gz", Gzip(recordings, GzipEffort::kQuick));
          PutFile(f / "mine_supervisions_train.jsonl", supervisions);
        },
        "mine_supervisions_train.jsonl", "train"}},
      {"stm",
       {[](const fs::path& f) {
          PutSound(f / "dev/sph/talk.wav", 3.0);
          PutSound(f / "dev/sph/more.wav");
          PutFile(f / "dev/stm/talk.stm", fmt::format(";; comment\ntalk 1 ann 0.0 1.0 <o,f0,female> {} {{NOISE}}\n"
                                                      "more 1 ann 0.0 1.0 <o> {} <unk>\ntalk 1 bob 2.0 3.0 <o> {}\n"
                                                      "talk 1 inter 2.5 3.0 <o> ignore_time_segment_in_scoring\n",
                                                      kCafe, kGreek, kMixed));
        },
        "dev/stm/talk.stm", "dev"}},
      {"voxforge",
       {[](const fs::path& f) {
          PutSound(f / "ann-2007/wav/a1.wav");
          PutSound(f / "ann-2007/wav/a2.wav");
          PutSound(f / "bob-2008/flac/a1.flac");
          PutFile(f / "ann-2007/etc/PROMPTS", fmt::format("ann-2007/mfc/a1 {}\nann-2007/mfc/a2 {}\n", kCafe, kGreek));
          PutFile(f / "ann-2007/etc/README", "User Name:ann\n\nGender: weiblich\n");
          PutFile(f / "bob-2008/etc/prompts-original", fmt::format("a1 {}\n", kMixed));
        },
        "ann-2007/etc/PROMPTS"}},
      {"mfa",
       {[](const fs::path& f) {
          PutSound(f / "ann/x.wav");
          PutSound(f / "ann/y.wav");
          PutFile(f / "ann/x.lab", kCafe);
          PutFile(f / "ann/y.txt", std::string(kGreek) + "\n");
          PutSound(f / "meeting.wav", 3.0);
          PutFile(f / "meeting.TextGrid",
                  fmt::format("File type = \"ooTextFile\"\nObject class = \"TextGrid\"\n\nxmin = 0\nxmax = 3\n"
                              "tiers? <exists>\nsize = 1\nitem []:\n    item [1]:\n        class = \"IntervalTier\"\n"
                              "        name = \"bob\"\n        xmin = 0\n        xmax = 3\n"
                              "        intervals: size = 2\n        intervals [1]:\n            xmin = 0\n"
                              "            xmax = 1.5\n            text = \"\"\n        intervals [2]:\n"
                              "            xmin = 1.5\n            xmax = 2.5\n            text = \"{}\"\n",
                              kMixed));
        },
        "meeting.TextGrid"}},
  };
  return excerpts;
}

class CorpusFormats : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(Excerpts().contains(GetParam())) << "a new layout: give it an excerpt here";
    excerpt_ = Excerpts().at(GetParam());
    excerpt_.put(folder_.path() / "corpus");
  }
  DataDir Read() {
    problems_.clear();
    const auto format = CorpusFormatRegistry::Get().Create(GetParam());
    const Corpus corpus = format->Read(folder_.path() / "corpus", excerpt_.part, problems_);
    return JoinTranscripts(corpus.audio, corpus.rows, "corpus", {}, problems_);
  }

  TemporaryFolder folder_;
  Excerpt excerpt_;
  std::vector<DataProblem> problems_;
};

TEST_P(CorpusFormats, SayWhoSaysWhat) {
  const DataDir dir = Read();
  for (const DataProblem& problem : problems_) ADD_FAILURE() << problem.where << ": " << problem.what;
  std::map<std::string, std::vector<std::string>> said;
  for (const Utterance& u : dir.utterances()) {
    std::string text;
    for (const std::string& word : u.words) text += (text.empty() ? "" : " ") + word;
    said[excerpt_.has_speakers ? u.speaker : "all"].push_back(text);
  }
  for (auto& [speaker, texts] : said) std::ranges::sort(texts);
  const std::map<std::string, std::vector<std::string>> expected = {{"ann", {kCafeRead, kGreek}}, {"bob", {kMixed}}};
  if (excerpt_.has_speakers) {
    EXPECT_EQ(said, expected);
  } else {
    EXPECT_EQ(said["all"], (std::vector<std::string>{kCafeRead, kGreek, kMixed}));
    EXPECT_EQ(dir.speakers().size(), 1);
  }
  dir.Write(folder_.path() / "out");
  EXPECT_TRUE(DataDir::Validate(folder_.path() / "out", {}, true).empty());
}

// Nothing of it may crash, be taken for another corpus or go unnoticed.
TEST_P(CorpusFormats, NameWhatIsDamaged) {
  const fs::path manifest = folder_.path() / "corpus" / excerpt_.manifest;
  const std::string whole = ReadFile(manifest);
  for (size_t length = 0; length < whole.size(); length += 7) {
    PutFile(manifest, whole.substr(0, length));
    try {
      const size_t found = Read().utterances().size();
      EXPECT_LE(found, 4);  // half of "ignore_time_segment_in_scoring" is a word
    } catch (const InputError& e) {
      EXPECT_THAT(std::string(e.what()), HasSubstr("corpus"));
    }
  }
  for (const std::string& bad : {std::string("\xff\xff\xff\n"), std::string(3, '\0'), std::string("{}\n[1]\n"),
                                 std::string("a|b|c\n;;\n"), std::string("a\tb\n")}) {
    PutFile(manifest, bad);
    try {
      Read();
      EXPECT_FALSE(problems_.empty()) << bad;
    } catch (const InputError& e) {
      EXPECT_STRNE(e.what(), "");
    }
  }
  fs::remove_all(folder_.path() / "corpus");
  EXPECT_THROW(Read(), Error);
}

TEST_P(CorpusFormats, NameAudioThatIsMissing) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder_.path() / "corpus")) {
    const std::string name = entry.path().filename().string();
    if (name == "ann-2.wav" || name == "a2.wav" || name == "y.wav" || name == "more.wav") fs::remove(entry.path());
  }
  EXPECT_EQ(Read().utterances().size(), 2);
  ASSERT_EQ(problems_.size(), 1);
  EXPECT_THAT(problems_[0].what, HasSubstr("a"));
  EXPECT_THAT(problems_[0].where, HasSubstr("corpus"));
}

INSTANTIATE_TEST_SUITE_P(All, CorpusFormats, ::testing::ValuesIn(CorpusFormatRegistry::Get().Names()),
                         [](const auto& layout) {
                           std::string name = layout.param;
                           std::erase(name, '-');
                           return name;
                         });

Corpus ReadCorpus(const std::string& layout, const fs::path& place, const std::string& part,
                  std::vector<DataProblem>& problems) {
  return CorpusFormatRegistry::Get().Create(layout)->Read(place, part, problems);
}

TEST(CommonVoice, TakesThePartThatIsNamed) {
  const TemporaryFolder folder;
  Excerpts().at("common-voice").put(folder.path());
  std::vector<DataProblem> problems;
  EXPECT_EQ(ReadCorpus("common-voice", folder.path(), "validated", problems).rows.size(), 3);
  for (const char* part : {"invalidated", "train", "test"}) {
    const Corpus corpus = ReadCorpus("common-voice", folder.path(), part, problems);
    ASSERT_EQ(corpus.rows.size(), 1);
    EXPECT_EQ(corpus.rows[0].text, part);
  }
  fs::remove(folder.path() / "validated.tsv");  // no other table takes its place
  EXPECT_THROW(ReadCorpus("common-voice", folder.path(), "", problems), InputError);
}

TEST(Stm, TakesOneOfAlternativesAndLeavesMarksOut) {
  const TemporaryFolder folder;
  const std::pair<const char*, const char*> lines[] = {
      {"{ um / uh / @ } yes", "um yes"},
      {"so { @ / uh } yes", "so yes"},
      {"{i've / i have} been", "i've been"},
      {"{ going to / { gonna / gon } } go", "going to go"},
      {"well { { all right / alright } / okay } then", "well all right then"},
      {"a (2) b(3) c", "a b c"},
      {"(%hes) i (%uh) know %hesitation", "i know"},
      {"they (really) ( you know ) came", "they really you know came"},
      {"it 's {BREATH} {LG DOG BARK} <sil> fine", "it's fine"},
  };
  std::string stm;
  for (const auto& [marked, said] : lines) stm += fmt::format("talk 1 ann 0 1 <o> {}\n", marked);
  PutFile(folder.path() / "talk.stm", stm +
                                          "talk 1 ann 0 1 <o> one { two / three\n"
                                          "talk A inter 1 2 IGNORE_TIME_SEGMENT_IN_SCORING\n");
  std::vector<DataProblem> problems;
  const Corpus corpus = ReadCorpus("stm", folder.path(), "", problems);
  ASSERT_EQ(corpus.rows.size(), std::size(lines));
  for (size_t i = 0; i < std::size(lines); ++i) EXPECT_EQ(corpus.rows[i].text, lines[i].second) << lines[i].first;
  ASSERT_EQ(problems.size(), 1);
  EXPECT_THAT(problems[0].where, HasSubstr("talk.stm:10"));
}

TEST(Nemo, GivesRowsOfOneFileIdsThatDiffer) {
  const TemporaryFolder folder;
  PutSound(folder.path() / "call.wav", 4.0);
  PutFile(folder.path() / "manifest.json",
          R"({"audio_filepath": "call.wav", "text": "one", "offset": 1.0, "duration": 1.0})"
          "\n"
          R"({"audio_filepath": "call.wav", "text": "two", "offset": 1.004, "duration": 1.5})"
          "\n"
          R"({"audio_filepath": "call.wav", "text": "three", "offset": 1.0, "duration": 1.0})"
          "\n"
          R"({"audio_filepath": "call.wav", "text": "three", "offset": 1.0, "duration": 1.0})"
          "\n"
          R"({"audio_filepath": "call.wav", "text": "four", "offset": 2.5, "duration": null})"
          "\n");
  std::vector<DataProblem> problems;
  const Corpus corpus = ReadCorpus("nemo", folder.path(), "", problems);
  const DataDir dir = JoinTranscripts(corpus.audio, corpus.rows, "nemo", {}, problems);
  std::map<std::string, std::pair<double, double>> times;
  for (const Utterance& u : dir.utterances()) times[u.words[0]] = {u.start_s, u.end_s};
  const std::map<std::string, std::pair<double, double>> expected = {
      {"one", {1.0, 2.0}}, {"two", {1.004, 2.504}}, {"three", {1.0, 2.0}}, {"four", {2.5, -1.0}}};
  EXPECT_EQ(times, expected);
  ASSERT_EQ(problems.size(), 1);  // the row that is there twice
  EXPECT_THAT(problems[0].where, HasSubstr("manifest.json:4"));
  dir.Write(folder.path() / "out");
  EXPECT_TRUE(DataDir::Validate(folder.path() / "out", {}, true).empty());
}

TEST(Lhotse, IsReadAsItWasWritten) {
  const TemporaryFolder folder;
  PutSound(folder.path() / "audio/call.wav", 4.0);
  PutSound(folder.path() / "audio/note.wav");
  PutFile(folder.path() / "t.csv",
          "file,text,speaker,gender,start,end\ncall.wav,ONE,ann,f,0.5,1.5\ncall.wav,TWO,bob,m,2,3.25\n"
          "note.wav,THREE,ann,f,0,1\n");
  std::vector<DataProblem> problems;
  const DataDir dir = PrepareDataDir(folder.path() / "audio", folder.path() / "t.csv", {}, problems);
  WriteLhotse(dir, folder.path() / "manifests");
  const Corpus corpus = CorpusFormatRegistry::Get().Create("lhotse")->Read(folder.path() / "manifests", "", problems);
  const DataDir back = JoinTranscripts(corpus.audio, corpus.rows, "lhotse", {}, problems);
  EXPECT_TRUE(problems.empty());
  ASSERT_EQ(back.utterances().size(), dir.utterances().size());
  for (size_t i = 0; i < dir.utterances().size(); ++i) {
    const Utterance &a = dir.utterances()[i], &b = back.utterances()[i];
    EXPECT_EQ(a.utt_id, b.utt_id);
    EXPECT_EQ(a.speaker, b.speaker);
    EXPECT_EQ(a.words, b.words);
    EXPECT_DOUBLE_EQ(a.start_s, b.start_s);
    EXPECT_EQ(dir.ResolveAudio(dir.recordings()[a.recording]), back.ResolveAudio(back.recordings()[b.recording]));
  }
  EXPECT_EQ(back.utterances()[0].end_s, 1.5);
  EXPECT_EQ(back.gender(), dir.gender());
}

TEST(Lhotse, ReadsCutsWithTheirSupervisions) {
  const TemporaryFolder folder;
  PutSound(folder.path() / "audio/call.wav", 8.0);
  const auto recording = nlohmann::json::parse(
      R"({"id": "call", "sources": [{"type": "file", "channels": [0], "source": "audio/call.wav"}],
          "sampling_rate": 8000, "num_samples": 64000, "duration": 8.0})");
  nlohmann::json cut = {{"id", "cut-1"},   {"type", "MonoCut"}, {"start", 2.0},
                        {"duration", 4.0}, {"channel", 0},      {"recording", recording}};
  cut["supervisions"] = nlohmann::json::parse(
      R"([{"id": "ann-1", "recording_id": "call", "start": 0.5, "duration": 1.0, "channel": 0, "text": "ONE",
           "speaker": "ann"},
          {"id": "bob-1", "recording_id": "call", "start": 2.0, "duration": 1.5, "channel": 0, "text": "TWO",
           "speaker": "bob"}])");
  const nlohmann::json mixed = {{"id", "mix"}, {"type", "MixedCut"}, {"tracks", nlohmann::json::array()}};
  PutFile(folder.path() / "my_cuts_train.jsonl.gz", Gzip(cut.dump() + "\n" + mixed.dump() + "\n", GzipEffort::kQuick));
  for (const fs::path& place : {folder.path(), folder.path() / "my_cuts_train.jsonl.gz"}) {
    std::vector<DataProblem> problems;
    const Corpus corpus = ReadCorpus("lhotse", place, "", problems);
    const DataDir dir = JoinTranscripts(corpus.audio, corpus.rows, "lhotse", {}, problems);
    ASSERT_EQ(dir.utterances().size(), 2);
    const Utterance &ann = dir.utterances()[0], &bob = dir.utterances()[1];
    EXPECT_EQ(ann.words, std::vector<std::string>{"ONE"});
    EXPECT_DOUBLE_EQ(ann.start_s, 2.5);
    EXPECT_DOUBLE_EQ(ann.end_s, 3.5);
    EXPECT_EQ(bob.speaker, "bob");
    EXPECT_DOUBLE_EQ(bob.start_s, 4.0);
    EXPECT_DOUBLE_EQ(bob.end_s, 5.5);
    ASSERT_EQ(problems.size(), 1);
    EXPECT_THAT(problems[0].where, HasSubstr("my_cuts_train.jsonl.gz:2"));
    EXPECT_THAT(problems[0].what, HasSubstr("mixes"));
  }
}

TEST(AudioFolder, ReadsMetadataInCsv) {
  const TemporaryFolder folder;
  PutThree(folder.path() / "train");
  PutFile(folder.path() / "train/metadata.csv",
          "file_name,transcription,speaker_id\nann-1.wav,\"one, two\",ann\nbob-1.wav,three,bob\n");
  std::vector<DataProblem> problems;
  const Corpus corpus = ReadCorpus("audiofolder", folder.path(), "train", problems);
  const DataDir dir = JoinTranscripts(corpus.audio, corpus.rows, "audiofolder", {}, problems);
  ASSERT_EQ(dir.utterances().size(), 2);
  EXPECT_EQ(dir.utterances()[0].words, (std::vector<std::string>{"one,", "two"}));
  EXPECT_EQ(dir.utterances()[1].speaker, "bob");
  ASSERT_EQ(problems.size(), 1);  // ann-2.wav has no row
  EXPECT_THAT(problems[0].what, HasSubstr("ann-2.wav"));
}

TEST(Praat, ReadsShortFilesInUtf16AndPassesPointsOver) {
  const TemporaryFolder folder;
  const std::u16string text =
      u"File type = \"ooTextFile\"\nObject class = "
      u"\"TextGrid\"\n\n0\n2\n<exists>\n2\n\"TextTier\"\n\"points\"\n0\n2\n1\n"
      u"0.5\n\"p 7\"\n\"IntervalTier\"\n\"w \"\"1\"\"\"\n0\n2\n2\n0\n1.25\n\"καλ\U0001F600\"\n1.25\n2\n\"\"\n";
  std::string bytes = "\xff\xfe";
  for (const char16_t unit : text) {
    bytes += static_cast<char>(unit & 0xFF);
    bytes += static_cast<char>(unit >> 8);
  }
  PutFile(folder.path() / "x.TextGrid", bytes);
  const auto tiers = ReadTextGrid(folder.path() / "x.TextGrid");
  ASSERT_EQ(tiers.size(), 1);
  EXPECT_EQ(tiers[0].name, "w \"1\"");
  ASSERT_EQ(tiers[0].intervals.size(), 2);
  EXPECT_EQ(tiers[0].intervals[0].label, "καλ\U0001F600");
  EXPECT_EQ(tiers[0].intervals[0].end_s, 1.25);
  EXPECT_EQ(tiers[0].intervals[1].label, "");
}

}  // namespace
}  // namespace antiphon::data
