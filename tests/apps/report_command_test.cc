// antiphon report as a user runs it: a set on which weights were chosen stands there as these weights recognise it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/gzip.h"
#include "command.h"
#include "decode/lattice/lattice_text.h"
#include "pipeline/chosen_weights.h"
#include "temporary_folder.h"

namespace antiphon::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// One word: "A" by the language model, "B" by the sound.
decode::Lattice OneWord() {
  decode::Lattice lattice;
  lattice.states.resize(2);
  const auto frame = lattice.AddAlignment(std::vector<int32_t>{1});
  lattice.states[0].arcs = {{1, 1, {1.0, 30.0}, frame}, {1, 2, {3.0, 10.0}, frame}};
  lattice.states[1].is_final = true;
  return lattice;
}

class ReportCommand : public ::testing::Test {
 protected:
  ReportCommand() {
    std::string said, recognised, lattices;
    for (int i = 0; i < 20; ++i) {
      const std::string utt_id = fmt::format("u{:02}", i);
      said += fmt::format("{} {}\n", utt_id, i < 15 ? "B" : "A");
      recognised += utt_id + " A\n";
      lattices += Gzip(decode::LatticeToText(utt_id, OneWord()), GzipEffort::kQuick);
    }
    WriteFileAtomically(folder_ / "dev/text", said);
    WriteFileAtomically(folder_ / "decode/text", recognised);
    WriteFileAtomically(folder_ / "decode/lattices.gz", lattices);
    WriteFileAtomically(folder_ / "graph/words.txt", "<eps> 0\nA 1\nB 2\n#0 3\n");
  }

  std::string Page(bool graph) {
    Config config;
    const auto set = [&](const char* key, const std::string& name) {
      config.Set(key, "'" + (folder_ / name).string() + "'");
    };
    set("out", "report.html");
    if (graph) set("graph", "graph");
    config.Set("references", "['" + (folder_ / "dev").string() + "']");
    config.Set("hypotheses", "['" + (folder_ / "decode").string() + "']");
    config.Set("seed", "7");
    std::ostringstream printed;
    RunCommand("report", config, printed);
    return ReadFile(folder_ / "report.html");
  }
  // The interval as antiphon score gives it for what stands in `file`.
  std::string Interval(const std::string& file) {
    Config config;
    config.Set("reference", "'" + (folder_ / "dev/text").string() + "'");
    config.Set("hypotheses", "'" + (folder_ / file).string() + "'");
    config.Set("seed", "7");
    std::ostringstream printed;
    RunCommand("score", config, printed);
    // "WER 25.00 % [5.00, 45.00] …"
    const std::string line = printed.str();
    const size_t open = line.find('['), comma = line.find(',', open), close = line.find(']', open);
    return line.substr(open + 1, comma - open - 1) + " – " + line.substr(comma + 2, close - comma - 2) + " %";
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(ReportCommand, ShowsASetAsTheWeightsThatWereChosenOnItRecogniseIt) {
  EXPECT_THAT(Page(true), HasSubstr("75.00 %"));
  EXPECT_THAT(Page(true), Not(HasSubstr("weights")));
  // 1 / 5 of the sound's weight and more: "B" is the cheaper word.
  pipeline::WriteChosenWeights(folder_ / "decode/weights.toml", {5.0, 0.0}, "test");
  std::string tuned;
  for (int i = 0; i < 20; ++i) tuned += fmt::format("u{:02} B\n", i);
  WriteFileAtomically(folder_ / "tuned", tuned);
  const std::string page = Page(true);
  EXPECT_THAT(page, HasSubstr("Word error rate, dev (weights chosen on it)"));
  EXPECT_THAT(page, HasSubstr("25.00 %"));
  EXPECT_THAT(page, Not(HasSubstr("75.00 %")));
  EXPECT_THAT(page, HasSubstr(Interval("tuned")));
  // Without the words of the lattices it says what it shows.
  const std::string untuned = Page(false);
  EXPECT_THAT(untuned, HasSubstr("dev (before weights were chosen)"));
  EXPECT_THAT(untuned, HasSubstr("75.00 %"));
  EXPECT_THAT(untuned, HasSubstr(Interval("decode/text")));
}

TEST_F(ReportCommand, RefusesLatticesOfAnotherGraphAndTheLackOfOne) {
  pipeline::WriteChosenWeights(folder_ / "decode/weights.toml", {5.0, 0.0}, "test");
  WriteFileAtomically(folder_ / "graph/words.txt", "<eps> 0\nA 1\n");
  EXPECT_THROW(Page(true), InputError);
  WriteFileAtomically(folder_ / "graph/words.txt", "<eps> 0\nA 1\nB 2\n");
  WriteFileAtomically(folder_ / "decode/lattices.gz",
                      Gzip(decode::LatticeToText("u00", OneWord()), GzipEffort::kQuick));
  try {
    Page(true);
    FAIL() << "nineteen utterances have no lattice";
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("no lattice of utterance 'u01'"));
  }
}

}  // namespace
}  // namespace antiphon::app
