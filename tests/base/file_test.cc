#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <regex>
#include <set>

#include "base/error.h"
#include "base/io_error.h"
#include "base/temporary_file.h"
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

TEST(MakeFolder, SaysThatALinkLeadsNowhere) {
  const TemporaryFolder folder;
  fs::create_symlink("gone", folder / "out");
  for (const fs::path& wanted : {folder / "out", folder / "out/graph"}) {
    try {
      WriteFileAtomically(wanted / "HCLG.fst", "x");
      FAIL() << "written through a link that leads nowhere";
    } catch (const IoError& e) {
      EXPECT_THAT(e.what(), HasSubstr("'" + (folder / "out").string() + "' is a symbolic link to 'gone'"));
    }
  }
  fs::create_directory(folder / "gone");
  WriteFileAtomically(folder / "out/graph/HCLG.fst", "x");
  EXPECT_EQ(ReadFile(folder / "gone/graph/HCLG.fst"), "x");
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

TEST(WriteFileAtomically, DoesNotWriteThroughALinkInItsWay) {
  const TemporaryFolder folder;
  WriteFileAtomically(folder / "elsewhere/precious", "kept");
  MakeFolder(folder / "out");
  fs::create_symlink(folder / "elsewhere/precious", folder / "out/f");
  WriteFileAtomically(folder / "out/f", "new");
  EXPECT_EQ(ReadFile(folder / "elsewhere/precious"), "kept");
  EXPECT_EQ(ReadFile(folder / "out/f"), "new");
  EXPECT_FALSE(fs::is_symlink(folder / "out/f"));
  EXPECT_NE(NewTemporaryPath(folder / "out/f"), NewTemporaryPath(folder / "out/f")) << "it can be foretold";
}

// Threads of a process, or processes of the same number in two containers.
TEST(WriteFileAtomically, WritersOfOnePathHaveFilesOfTheirOwn) {
  const TemporaryFolder folder;
  AtomicFile one(folder / "f"), other(folder / "f");
  one.stream() << "one";
  other.stream() << "other";
  one.Commit();
  EXPECT_EQ(ReadFile(folder / "f"), "one");
  other.Commit();
  EXPECT_EQ(ReadFile(folder / "f"), "other");
  EXPECT_EQ(FilesIn(folder.path()), 1u);
}

// A container's processes have numbers of their own, and its host's name.
TEST(RemoveStaleTemporaries, LeavesThoseOfWritersThatAreNotSeenHere) {
  const TemporaryFolder folder;
  const pid_t ended = ::fork();
  ASSERT_GE(ended, 0);
  if (ended == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(ended, nullptr, 0), ended);
  AtomicFile file(folder / "f");
  file.stream() << "under way";
  const fs::path here = fs::directory_iterator(folder.path())->path();
  const fs::path elsewhere = folder / std::regex_replace(here.filename().string(),
                                                         std::regex(std::to_string(::getpid()) + "-([0-9a-f]+.tmp)$"),
                                                         std::to_string(ended) + "-$1");
  ASSERT_NE(elsewhere, here);
  fs::rename(here, elsewhere);
  RemoveStaleTemporaries(folder.path());
  ASSERT_TRUE(fs::exists(elsewhere)) << "somebody writes it";
  fs::rename(elsewhere, here);
  file.Commit();
  EXPECT_EQ(ReadFile(folder / "f"), "under way");
  std::ofstream(elsewhere) << "left behind";
  RemoveStaleTemporaries(folder.path());
  EXPECT_FALSE(fs::exists(elsewhere));
}

// Whoever may rename in the folder could put a link there in between.
TEST(WriteFileAtomically, OpensItsTemporaryFileOnceForWriting) {
  const TemporaryFolder folder;
  const FileDescriptor events(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  // Equal events behind each other would be one.
  ASSERT_GE(::inotify_add_watch(events.get(), folder.path().c_str(), IN_OPEN | IN_CLOSE_WRITE), 0);
  WriteFileAtomically(folder / "f", "new");
  alignas(inotify_event) char read[4096];
  const ssize_t bytes = ::read(events.get(), read, sizeof read);
  int closed = 0;
  for (ssize_t at = 0; at < bytes;) {
    const auto& event = *reinterpret_cast<const inotify_event*>(read + at);
    closed += (event.mask & IN_CLOSE_WRITE) != 0 ? 1 : 0;
    at += static_cast<ssize_t>(sizeof event + event.len);
  }
  EXPECT_EQ(closed, 1);
}

TEST(WriteFileAtomically, LeavesDevicesPipesAndFoldersInTheirPlace) {
  const TemporaryFolder folder;
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  fs::create_symlink("/dev/null", folder / "null");
  fs::create_directories(folder / "there");
  for (const fs::path& path : {pipe, folder / "null", folder / "there"}) {
    EXPECT_THROW(WriteFileAtomically(path, "new"), IoError) << path;
  }
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_TRUE(fs::is_symlink(folder / "null"));
  EXPECT_EQ(FilesIn(folder.path()), 3u) << "no temporary file may be left";
}

TEST(MappedFile, RefusesAPipeInsteadOfWaitingForIt) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THROW(MappedFile(folder / "pipe"), IoError);
  EXPECT_THROW(MappedFile(folder.path()), IoError);
}

TEST(MakeFolder, SaysWhatStandsInTheWay) {
  const TemporaryFolder folder;
  WriteFileAtomically(folder / "f", "here");
  for (const fs::path& path : {folder / "f", folder / "f/g"}) {
    try {
      MakeFolder(path);
      FAIL() << "expected IoError";
    } catch (const IoError& e) {
      EXPECT_THAT(e.what(), AllOf(HasSubstr(path.string()), HasSubstr("choose another name")));
    }
  }
  EXPECT_EQ(ReadFile(folder / "f"), "here");
}

TEST(WriteFileAtomically, RemovesWhatKilledWritersLeft) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    AtomicFile file(folder / "other");
    file.stream() << "half" << std::flush;
    ::raise(SIGKILL);
  }
  // Killed, but still a zombie: its parent has not waited for it.
  siginfo_t ended = {};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  ASSERT_EQ(ended.si_code, CLD_KILLED);
  // Of a living process and of another machine; and what only looks alike.
  const std::string mine = NewTemporaryPath(folder / "mine").filename().string();
  const std::string dead =
      std::regex_replace(mine, std::regex("-[0-9]+-([0-9a-f]+.tmp)$"), "-" + std::to_string(child) + "-$1");
  const std::vector<std::string> kept = {mine, "x.antiphon-elsewhere-" + std::to_string(child) + "-1.tmp",
                                         "other.tmp." + std::to_string(child), dead + ".txt", "-5.tmp"};
  for (const std::string& name : kept) std::ofstream(folder / name) << "x";
  ASSERT_EQ(FilesIn(folder.path()), 6u) << "nothing was left behind";
  WriteFileAtomically(folder / "new", "y");
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    names.insert(entry.path().filename().string());
  }
  std::set<std::string> expected(kept.begin(), kept.end());
  expected.insert("new");
  EXPECT_EQ(names, expected);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  std::ofstream(folder / dead) << "x";
  WriteFileAtomically(folder / "new", "z");
  EXPECT_FALSE(fs::exists(folder / dead)) << "nor of a process that is no more";
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

TEST(ReadFile, NamesWhatCannotBeRead) {
  try {
    ReadFile("/proc/self/mem");  // nothing is at address 0
    FAIL();
  } catch (const IoError& e) {
    EXPECT_THAT(e.what(), HasSubstr("cannot read '/proc/self/mem': Input/output error"));
  }
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

TEST(HeldFolder, GivesTheFilesOfOneFolderAlsoWhenAnotherTakesItsPlace) {
  TemporaryFolder folder;
  WriteFileAtomically(folder / "here/f", "old");
  WriteFileAtomically(folder / "here/only", "old");
  WriteFileAtomically(folder / "next/f", "replacement");
  const HeldFolder held(folder / "here");
  EXPECT_TRUE(held.InPlace());
  std::filesystem::rename(folder / "here", folder / "aside");
  EXPECT_FALSE(held.InPlace());
  std::filesystem::rename(folder / "next", folder / "here");
  EXPECT_FALSE(held.InPlace());
  EXPECT_EQ(MappedFile(held, "f").bytes().size(), 3u);
  EXPECT_TRUE(held.Has("only"));
  EXPECT_FALSE(HeldFolder(folder / "here").Has("only"));
  EXPECT_THROW(MappedFile(held, "missing"), IoError);
}

TEST(HeldFolder, KnowsThatNothingIsThere) {
  TemporaryFolder folder;
  const HeldFolder nothing(folder / "later");
  EXPECT_FALSE(nothing.Has("f"));
  EXPECT_TRUE(nothing.InPlace());
  WriteFileAtomically(folder / "later/f", "x");
  EXPECT_FALSE(nothing.InPlace());
  EXPECT_FALSE(HeldFolder(folder / "later/f/below").Has("f"));
}

TEST(Checksum, IsXxh3) {
  // xxhsum -H3 of the empty input.
  EXPECT_EQ(Checksum(std::string_view("")), 0x2d06800538d394c2ULL);
  EXPECT_NE(Checksum(std::string_view("a")), Checksum(std::string_view("b")));
}

}  // namespace
}  // namespace antiphon
