// Which channel of which file a corpus means, as STM and lhotse say it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/corpus/corpus_format.h"
#include "put_file.h"
#include "temporary_folder.h"

namespace antiphon::data {
namespace {

using ::antiphon::testing::TemporaryFolder;
using ::testing::HasSubstr;

std::vector<TranscriptRow> RowsOf(const std::string& format, const TemporaryFolder& folder,
                                  std::vector<DataProblem>& problems) {
  return CorpusFormatRegistry::Get().Create(format)->Read(folder.path(), "", problems).rows;
}

TEST(Stm, NamesChannelsByLettersAndBySeveralNumbers) {
  const TemporaryFolder folder;
  PutFile(folder.path() / "x.stm",
          "call A ann 0 1 YES\ncall A ann 1 2 YES\ntalk 1 ann 0 1 YES\ntwo 1 ann 0 1 YES\ntwo 2 bob 0 1 YES\n"
          "right 2 bob 0 1 YES\nfour 1 ann 0 1 YES\nfour 3 bob 0 1 YES\nzero 0 ann 0 1 YES\nzero 1 bob 0 1 YES\n");
  std::vector<DataProblem> problems;
  std::vector<std::string> channels;
  for (const TranscriptRow& row : RowsOf("stm", folder, problems)) channels.push_back(row.channel);
  EXPECT_EQ(channels, (std::vector<std::string>{"A", "A", "", "A", "B", "B", "A", "C", "0", "1"}));
}

// Meetings have a file for each microphone.
TEST(Lhotse, TakesTheSourceThatHoldsTheChannel) {
  const TemporaryFolder folder;
  PutFile(folder.path() / "recordings.jsonl",
          R"({"id": "meeting", "duration": 4.0, "sources": [)"
          R"({"type": "file", "channels": [0], "source": "a.wav"},)"
          R"({"type": "file", "channels": [3, 1], "source": "b.wav"}]})"
          "\n"
          R"({"id": "note", "duration": 4.0, "sources": [{"type": "file", "channels": [0], "source": "c.wav"}]})"
          "\n");
  std::string supervisions;
  const auto add = [&](const char* id, const char* recording, const char* channel) {
    supervisions += fmt::format(R"({{"id": "{}", "recording_id": "{}", "start": 0, "duration": 1, "text": "X"{}}})", id,
                                recording, channel) +
                    "\n";
  };
  add("ann", "meeting", R"(, "channel": 0)");
  add("bob", "meeting", R"(, "channel": 1)");
  add("eve", "meeting", R"(, "channel": [3])");
  add("two", "meeting", R"(, "channel": [1, 3])");
  add("dan", "note", "");
  add("kim", "note", R"(, "channel": 1)");
  add("pat", "note", R"(, "channel": null)");
  add("lost", "meeting", R"(, "channel": 2)");
  add("wide", "meeting", R"(, "channel": [0, 1])");
  add("mute", "meeting", "");
  PutFile(folder.path() / "supervisions.jsonl", supervisions);
  std::vector<DataProblem> problems;
  std::vector<std::vector<std::string>> found;
  for (const TranscriptRow& row : RowsOf("lhotse", folder, problems)) {
    found.push_back({row.id, row.file, row.channel});
  }
  const std::vector<std::vector<std::string>> expected = {
      {"ann", "a.wav", ""}, {"bob", "b.wav", "1"}, {"eve", "b.wav", "0"}, {"two", "b.wav", ""},
      {"dan", "c.wav", ""}, {"kim", "c.wav", ""},  {"pat", "c.wav", ""}};
  EXPECT_EQ(found, expected);
  ASSERT_EQ(problems.size(), 3);
  EXPECT_THAT(problems[0].what, HasSubstr("supervision 'lost' is of channel [2] of recording 'meeting'"));
  EXPECT_THAT(problems[1].what, HasSubstr("supervision 'wide' is of channel [0, 1]"));
  EXPECT_THAT(problems[2].what, HasSubstr("supervision 'mute'"));
}

}  // namespace
}  // namespace antiphon::data
