// antiphon g2p as a user runs it, and the commands that pronounce new words by its models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "command.h"
#include "feat/audio.h"
#include "hmm/lexicon.h"
#include "temporary_folder.h"

namespace antiphon::app {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Letters that are their own phones, "ch" apart.
constexpr const char* kLexicon =
    "<UNK> SPN\nba B A\nab A B\nchab CH A B\nbach B A CH\ncha CH A\nach A CH\nbab B A B\naba A B A\nchach CH A CH\n";

class G2pCommand : public ::testing::Test {
 protected:
  G2pCommand() {
    WriteFileAtomically(folder_ / "lexicon.txt", kLexicon);
    Run("g2p train", {{"lexicon", Path("lexicon.txt")}, {"out", Path("toy.g2p")}, {"order", "3"}});
  }
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  json Run(const std::string& command, const std::vector<std::pair<std::string, std::string>>& options) {
    Config config;
    for (const auto& [key, value] : options) {
      const bool bare =
          value.find_first_not_of("0123456789.") == std::string::npos || value == "true" || value[0] == '[';
      config.Set(key, bare ? value : "'" + value + "'");
    }
    printed_.str("");
    return json::parse(RunCommand(command, config, printed_));
  }
  std::string ErrorOf(const std::string& command, const std::vector<std::pair<std::string, std::string>>& options) {
    try {
      Run(command, options);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }

  testing::TemporaryFolder folder_;
  std::ostringstream printed_;
};

TEST_F(G2pCommand, PronouncesNewWords) {
  const json result = Run("g2p apply", {{"model", Path("toy.g2p")}, {"words", "['bacha', 'ab']"}});
  EXPECT_EQ(result["bacha"][0]["phones"], (json{"B", "A", "CH", "A"}));
  EXPECT_EQ(printed_.str(), "bacha B A CH A\nab A B\n");
}

TEST_F(G2pCommand, WritesALexiconOfWhatIsMissing) {
  WriteFileAtomically(folder_ / "words.txt", "abab 17\nab 3\nchacha\n");
  Run("g2p apply", {{"model", Path("toy.g2p")},
                    {"list", Path("words.txt")},
                    {"lexicon", Path("lexicon.txt")},
                    {"probabilities", "true"},
                    {"nbest", "2"},
                    {"out", Path("new.txt")}});
  const hmm::Lexicon lexicon = hmm::Lexicon::Load(folder_ / "new.txt");
  EXPECT_EQ(lexicon.num_words(), 2);
  EXPECT_GT(lexicon.entries().size(), 2U);
  EXPECT_EQ(lexicon.FindWord("ab"), 0);
}

TEST_F(G2pCommand, MeasuresItsErrors) {
  WriteFileAtomically(folder_ / "other.txt", "bacha B A CH A\nabach A B A CH\nbaba B A B CH\n");
  const json result = Run("g2p evaluate", {{"model", Path("toy.g2p")}, {"lexicon", Path("other.txt")}});
  EXPECT_EQ(result["words"], 3);
  EXPECT_EQ(result["wrong_words"], 1);
  EXPECT_EQ(result["phone_errors"], 1);
  EXPECT_EQ(result["phones"], 12);
}

TEST_F(G2pCommand, HoldsWordsOutToMeasure) {
  const json result = Run("g2p train", {{"lexicon", Path("lexicon.txt")}, {"out", Path("b.g2p")}, {"held-out", "0.3"}});
  EXPECT_GT(result["held_out"]["words"], 0);
  EXPECT_EQ(result["words"], 9);
  EXPECT_EQ(result["left_out"], 1);
}

TEST_F(G2pCommand, NamesWhatIsWrong) {
  EXPECT_THAT(ErrorOf("g2p apply", {{"model", Path("toy.g2p")}, {"words", "['bad']"}}),
              AllOf(HasSubstr("'bad'"), HasSubstr("'d' (U+0064)")));
  EXPECT_THAT(ErrorOf("g2p apply", {{"model", Path("toy.g2p")}}), HasSubstr("--list"));
  EXPECT_THAT(ErrorOf("g2p apply", {{"model", Path("lexicon.txt")}, {"words", "['ba']"}}), HasSubstr("lexicon.txt"));
  EXPECT_THAT(ErrorOf("g2p train", {{"lexicon", Path("lexicon.txt")}, {"out", Path("toy.model")}}), HasSubstr(".g2p"));
  WriteFileAtomically(folder_ / "bad.txt", "ba B A\nab\n");
  EXPECT_THAT(ErrorOf("g2p train", {{"lexicon", Path("bad.txt")}, {"out", Path("b.g2p")}}),
              AllOf(HasSubstr("bad.txt:2"), HasSubstr("'ab' has no phones")));
  WriteFileAtomically(folder_ / "marks.txt", "<UNK> SPN\n");
  EXPECT_THAT(ErrorOf("g2p train", {{"lexicon", Path("marks.txt")}, {"out", Path("b.g2p")}}),
              HasSubstr("no words that are spelt as they are said"));
}

TEST_F(G2pCommand, InfoDescribesTheModel) {
  const json result = Run("info", {{"file", Path("toy.g2p")}});
  EXPECT_EQ(result["letters"], "b a c h");
  EXPECT_EQ(result["learnt from"]["words"], 9);
}

TEST_F(G2pCommand, PrepareCompletesALexicon) {
  feat::WriteWav(folder_ / "audio/one.wav", {std::vector<float>(8000, 0.1F), 8000});
  WriteFileAtomically(folder_ / "table.tsv", "one\tba chacha abab ba xyz\n");
  const std::string paths = fmt::format("['{}', '{}', '{}']", Path("audio"), Path("table.tsv"), Path("data"));
  Run("prepare", {{"paths", paths},
                  {"lexicon", Path("lexicon.txt")},
                  {"g2p", Path("toy.g2p")},
                  {"complete-lexicon", Path("all.txt")}});
  EXPECT_EQ(ReadFile(folder_ / "all.txt"), std::string(kLexicon) + "abab A B A B\nchacha CH A CH A\n");
  EXPECT_THAT(printed_.str(), AllOf(HasSubstr("2 more words"), HasSubstr("'xyz'")));
  EXPECT_THAT(ErrorOf("prepare", {{"paths", paths}, {"g2p", Path("toy.g2p")}}), HasSubstr("belong together"));
  WriteFileAtomically(folder_ / "few.txt", "ab A B\n");
  EXPECT_THAT(ErrorOf("prepare", {{"paths", paths},
                                  {"lexicon", Path("few.txt")},
                                  {"g2p", Path("toy.g2p")},
                                  {"complete-lexicon", Path("all.txt")}}),
              AllOf(HasSubstr("toy.g2p"), HasSubstr("'CH'")));
}

}  // namespace
}  // namespace antiphon::app
