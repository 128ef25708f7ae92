#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "temporary_folder.h"

namespace antiphon {
namespace {

namespace fs = std::filesystem;
using antiphon::testing::TemporaryFolder;
using ::testing::HasSubstr;

size_t FilesIn(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(WriteFileAtomically, WritesAndMakesFolders) {
  TemporaryFolder folder;
  const std::string bytes("a\0b\n", 4);
  WriteFileAtomically(folder / "x/y/z", bytes);
  EXPECT_EQ(ReadFile(folder / "x/y/z"), bytes);
  EXPECT_EQ(FilesIn(folder / "x/y"), 1u);
}

TEST(WriteFileAtomically, KeepsTheOldFileWhenTheWriterFails) {
  TemporaryFolder folder;
  WriteFileAtomically(folder / "f", "old");
  EXPECT_THROW(WriteFileAtomically(folder / "f",
                                   [](std::ostream& out) {
                                     out << "half of the new";
                                     throw InputError("no more");
                                   }),
               InputError);
  EXPECT_EQ(ReadFile(folder / "f"), "old");
  EXPECT_EQ(FilesIn(folder.path()), 1u) << "the temporary file must be gone";
}

TEST(WriteFileAtomically, KeepsTheOldFileWhenTheStreamFails) {
  TemporaryFolder folder;
  WriteFileAtomically(folder / "f", "old");
  EXPECT_THROW(WriteFileAtomically(folder / "f", [](std::ostream& out) { out.setstate(std::ios::badbit); }), IoError);
  EXPECT_EQ(ReadFile(folder / "f"), "old");
}

TEST(ReadFile, NamesWhatIsMissing) {
  try {
    ReadFile("/nonexistent/file");
    FAIL();
  } catch (const IoError& e) {
    EXPECT_THAT(e.what(), HasSubstr("/nonexistent/file"));
    EXPECT_THAT(e.what(), HasSubstr("No such file"));
  }
  EXPECT_THROW(ReadFile("/tmp"), IoError);
}

TEST(MappedFile, ShowsTheBytesAndMoves) {
  TemporaryFolder folder;
  WriteFileAtomically(folder / "f", "hello");
  MappedFile map(folder / "f");
  ASSERT_EQ(map.bytes().size(), 5u);
  EXPECT_EQ(static_cast<char>(map.bytes()[1]), 'e');
  MappedFile moved = std::move(map);
  EXPECT_EQ(moved.bytes().size(), 5u);
  WriteFileAtomically(folder / "empty", "");
  EXPECT_TRUE(MappedFile(folder / "empty").bytes().empty());
  EXPECT_THROW(MappedFile(folder / "missing"), IoError);
  EXPECT_THROW(MappedFile(folder.path()), IoError);
}

TEST(Checksum, IsXxh3) {
  // xxhsum -H3 of the empty input.
  EXPECT_EQ(Checksum(std::string_view("")), 0x2d06800538d394c2ULL);
  EXPECT_NE(Checksum(std::string_view("a")), Checksum(std::string_view("b")));
}

}  // namespace
}  // namespace antiphon
