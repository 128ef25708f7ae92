#include "data/audio_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "put_file.h"
#include "temporary_folder.h"

namespace antiphon::data {
namespace {

using ::testing::ElementsAre;

TEST(AudioFiles, NameLinksThatLeadNowhere) {
  const testing::TemporaryFolder folder;
  PutFile(folder / "a.wav", "");
  std::filesystem::create_symlink("a.wav", folder / "b.wav");
  std::filesystem::create_symlink("gone.wav", folder / "c.wav");
  std::filesystem::create_symlink("gone.txt", folder / "c.txt");
  const AudioFiles files(folder.path());
  EXPECT_THAT(files.paths(), ElementsAre("a.wav", "b.wav"));
  EXPECT_EQ(files.RemarkOnRest(), "the link 'c.wav' leads nowhere");
  std::filesystem::create_symlink("gone.mp3", folder / "b.mp3");
  EXPECT_EQ(AudioFiles(folder.path()).RemarkOnRest(), "2 links lead nowhere, the first: 'b.mp3'");
}

TEST(RecordingsNames, AreAsShortAsTheyCanBe) {
  EXPECT_THAT(NamesOfRecordings({"x/a.wav", "y/b.wav"}), ElementsAre("a", "b"));
  EXPECT_THAT(NamesOfRecordings({"x/a.wav", "y/a.wav", "b.wav"}), ElementsAre("x/a", "y/a", "b"));
  EXPECT_THAT(NamesOfRecordings({"x/a.wav", "y/a.wav", "y/a.flac"}), ElementsAre("x/a", "y/a.wav", "y/a.flac"));
  EXPECT_THAT(NamesOfRecordings({"x/a.wav", "x/a.wav"}), ElementsAre("x/a.wav", "x/a.wav"));
}

}  // namespace
}  // namespace antiphon::data
