// Archives against the system's tar, and what is refused.
#include "base/archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "temporary_folder.h"

namespace antiphon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

class ArchiveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ArchiveWriter writer(file_);
    writer.Add("card.json", std::as_bytes(std::span(first_)));
    writer.Add("graph/words.txt", std::as_bytes(std::span(second_)));
    writer.Add("empty", {});
    writer.Commit();
  }
  std::string What(const std::function<void()>& fails) {
    try {
      fails();
    } catch (const Error& e) {
      return e.what();
    }
    return "nothing thrown";
  }
  const TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "a.antiphon";
  const std::string first_ = "{}\n", second_ = std::string(1000, 'w') + "\n";
};

TEST_F(ArchiveTest, MembersAreReadAsFiles) {
  EXPECT_EQ(ReadFile(file_ / "card.json"), first_);
  EXPECT_EQ(ReadFile(file_ / "graph" / "words.txt"), second_);
  EXPECT_EQ(ReadFile(file_ / "graph" / ".." / "card.json"), first_);
  EXPECT_EQ(ReadFile(file_ / "empty"), "");
  EXPECT_EQ(MappedFile(file_ / "graph/words.txt").bytes().size(), second_.size());
  EXPECT_TRUE(IsThere(file_));
  EXPECT_TRUE(IsThere(file_ / "graph"));
  EXPECT_TRUE(IsThere(file_ / "graph/words.txt"));
  EXPECT_FALSE(IsThere(file_ / "graph/word"));
  EXPECT_FALSE(IsThere(folder_ / "none" / "card.json"));
  EXPECT_THAT(What([&] { ReadFile(file_ / "graph/none"); }), HasSubstr("holds no 'graph/none'"));
}

TEST_F(ArchiveTest, TheSystemsTarUnpacksIt) {
  const std::string to = (folder_ / "out").string();
  std::filesystem::create_directories(to);
  ASSERT_EQ(std::system(("tar -xf '" + file_.string() + "' -C '" + to + "'").c_str()), 0);
  EXPECT_EQ(ReadFile(folder_ / "out" / "graph" / "words.txt"), second_);
}

TEST_F(ArchiveTest, WhatTheSystemsTarPackedIsRead) {
  WriteFileAtomically(folder_ / "in" / "deep" / "file.txt", "text");
  const std::string made = (folder_ / "b.antiphon").string();
  ASSERT_EQ(std::system(("tar --format=ustar -cf '" + made + "' -C '" + (folder_ / "in").string() + "' deep").c_str()),
            0);
  EXPECT_EQ(ReadFile(std::filesystem::path(made) / "deep" / "file.txt"), "text");
}

TEST_F(ArchiveTest, LongNamesAreCutAtAFolder) {
  const std::string to = (folder_ / "out").string();
  std::filesystem::create_directories(to);
  const std::vector<std::string> names = {"written/" + std::string(92, 'n'), "written/" + std::string(93, 'n'),
                                          "written/" + std::string(100, 'n'),
                                          std::string(155, 'f') + "/" + std::string(100, 'n'),
                                          std::string(60, 'f') + "/" + std::string(60, 'g') + "/" + "n"};
  ArchiveWriter writer(folder_ / "long.antiphon");
  for (const std::string& name : names) writer.Add(name, std::as_bytes(std::span(name)));
  writer.Commit();
  ASSERT_EQ(std::system(("tar -xf '" + (folder_ / "long.antiphon").string() + "' -C '" + to + "'").c_str()), 0);
  for (const std::string& name : names) {
    EXPECT_EQ(ReadFile(folder_ / "long.antiphon" / name), name);
    EXPECT_EQ(ReadFile(folder_ / "out" / name), name);
  }
}

TEST_F(ArchiveTest, WhatDoesNotFitIsRefused) {
  ArchiveWriter writer(folder_ / "new.antiphon");
  const std::vector<std::string> names = {std::string(101, 'n'), "written/" + std::string(101, 'n'),
                                          std::string(156, 'f') + "/" + std::string(100, 'n')};
  for (const std::string& name : names) {
    EXPECT_THAT([&] { writer.Add(name, {}); },
                ::testing::ThrowsMessage<InputError>(
                    AllOf(HasSubstr("new.antiphon' cannot hold '" + name + "'"), HasSubstr("at most 100 bytes"))));
  }
  // Nobody looks at that many zeros.
  constexpr size_t kLarge = size_t{1} << 33;
  void* const zeros = ::mmap(nullptr, kLarge, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(zeros, MAP_FAILED);
  EXPECT_THAT(
      [&] {
        writer.Add("model", {static_cast<const std::byte*>(zeros), kLarge});
      },
      ::testing::ThrowsMessage<InputError>(HasSubstr("'model' of 8589934592 bytes")));
  ::munmap(zeros, kLarge);
}

// At every length and with every header byte changed: whole, or refused.
TEST_F(ArchiveTest, DamageIsFound) {
  const std::string bytes = ReadFile(file_);
  for (size_t length = 1; length + 1024 < bytes.size(); length += 97) {
    WriteFileAtomically(folder_ / "cut.antiphon", std::string_view(bytes).substr(0, length));
    EXPECT_THROW(ListArchive(folder_ / "cut.antiphon"), InputError) << length;
  }
  for (size_t at = 0; at < 512; at += 7) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x15);
    WriteFileAtomically(folder_ / "changed.antiphon", changed);
    EXPECT_THROW(ListArchive(folder_ / "changed.antiphon"), InputError) << at;
  }
}

}  // namespace
}  // namespace antiphon
