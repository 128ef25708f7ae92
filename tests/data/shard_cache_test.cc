// Copies of shards on a machine's own disk: whole and right or not used, never beyond the limit, shared by processes.
#include "data/shard_cache.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <future>
#include <map>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "data/shard_fetcher.h"
#include "faults/small_disk.h"
#include "sanitized.h"
#include "store_fixture.h"
#include "temporary_folder.h"

namespace antiphon::data {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr char kKey[] = "00000000000000aa";

// Tests call shards by letters.
std::string ShardOf(const std::string& letter) { return fmt::format("shard-{:05}.frames", letter[0] - 'a'); }

class ShardCacheTest : public ::testing::Test {
 protected:
  // A file of the shared file system with `bytes` times its name's first letter.
  fs::path Source(const std::string& name, size_t bytes = 1000) {
    const fs::path path = folder_ / name;
    WriteFileAtomically(path, std::string(bytes, name[0]));
    return path;
  }
  static std::string Text(const CachedFile& file) {
    return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
  }
  std::optional<CachedFile> Take(const ShardCache& cache, const std::string& name, size_t bytes = 1000) {
    const auto verify = [&](std::span<const std::byte> data) {
      ++verified_;
      for (const std::byte b : data) {
        if (static_cast<char>(b) != name[0]) throw InputError("the checksum is wrong");
      }
    };
    why_.clear();
    const auto stop = [] { return false; };
    try {
      auto taken = cache.Take({ShardOf(name), bytes, CopyOf(folder_ / name, bytes, stop), verify}, stop);
      if (!taken) why_ = "no room";
      return taken;
    } catch (const Error& e) {
      why_ = e.what();
      return std::nullopt;
    }
  }
  ShardCache Cache(uint64_t limit, const std::string& key = kKey) { return {folder_ / "cache", key, limit}; }
  fs::path Copy(const std::string& letter) { return folder_ / "cache" / kKey / ShardOf(letter); }
  // Letters; of other files all of the name.
  std::vector<std::string> Names(const std::string& key = kKey) {
    std::vector<std::string> names;
    std::error_code missing;
    for (const auto& entry : fs::directory_iterator(folder_ / "cache" / key, missing)) {
      const std::string file = entry.path().filename().string();
      std::string name = file;
      for (char c = 'a'; c <= 'f'; ++c) {
        if (file == ShardOf(std::string(1, c))) name = std::string(1, c);
      }
      names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  void SetAge(const fs::path& file, int minutes) {
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::minutes(minutes));
  }

  testing::TemporaryFolder folder_;
  std::string why_;
  int verified_ = 0;
};

TEST_F(ShardCacheTest, CopiesOnceAndServesTheCopy) {
  Source("a");
  const ShardCache cache = Cache(5000);
  ASSERT_TRUE(Take(cache, "a"));
  fs::remove(folder_ / "a");
  const auto again = Take(cache, "a");
  ASSERT_TRUE(again) << why_;
  EXPECT_EQ(Text(*again), std::string(1000, 'a'));
  EXPECT_EQ(verified_, 2) << "each time that it is taken";
}

TEST_F(ShardCacheTest, ADamagedOrTornCopyIsMadeAnew) {
  Source("a");
  const ShardCache cache = Cache(5000);
  ASSERT_TRUE(Take(cache, "a"));
  const fs::path copy = Copy("a");
  std::string damaged(1000, 'a');
  damaged[700] = 'x';
  for (const std::string& content : {damaged, std::string(400, 'a'), std::string()}) {
    std::ofstream(copy, std::ios::binary | std::ios::trunc) << content;
    const auto taken = Take(cache, "a");
    ASSERT_TRUE(taken) << why_;
    EXPECT_EQ(Text(*taken), std::string(1000, 'a'));
  }
  fs::remove(copy);
  std::ofstream(copy.string() + ".part") << "what a crash left";
  EXPECT_TRUE(Take(cache, "a"));
  EXPECT_EQ(Names(), std::vector<std::string>{"a"});
}

// In a folder that several may write to, the names can be foretold.
TEST_F(ShardCacheTest, NothingIsWrittenThroughALink) {
  Source("a");
  const fs::path precious = folder_ / "precious", place = folder_ / "cache" / kKey;
  WriteFileAtomically(precious, "kept");
  fs::create_directories(place);
  for (const std::string& name : {ShardOf("a") + ".part", ShardOf("a") + ".lock", std::string("../lock")}) {
    fs::create_symlink(precious, place / name);
    EXPECT_FALSE(Take(Cache(5000), "a")) << name;
    EXPECT_THAT(why_, HasSubstr("a symbolic link stands there")) << name;
    EXPECT_EQ(ReadFile(precious), "kept") << name;
    fs::remove(place / name);
  }
  fs::create_symlink(precious, Copy("a"));
  EXPECT_TRUE(Take(Cache(5000), "a")) << why_;
  EXPECT_FALSE(fs::is_symlink(Copy("a"))) << "the copy takes the link's place";
  EXPECT_EQ(ReadFile(precious), "kept");
}

TEST_F(ShardCacheTest, ADamagedOriginalIsNotCached) {
  WriteFileAtomically(folder_ / "a", std::string(1000, 'b'));
  EXPECT_FALSE(Take(Cache(5000), "a"));
  EXPECT_THAT(why_, HasSubstr("is not what it should be"));
  WriteFileAtomically(folder_ / "a", std::string(500, 'a'));
  EXPECT_FALSE(Take(Cache(5000), "a"));
  EXPECT_TRUE(Names().empty());
}

TEST_F(ShardCacheTest, RemovesTheLongestUnusedButNothingInUse) {
  for (const char* name : {"a", "b", "c", "d"}) Source(name);
  const ShardCache cache = Cache(3000);
  const auto a = Take(cache, "a");
  Take(cache, "b");
  Take(cache, "c");
  SetAge(Copy("a"), 30);  // the oldest, but in use
  SetAge(Copy("b"), 10);
  SetAge(Copy("c"), 20);
  ASSERT_TRUE(Take(cache, "d")) << why_;
  EXPECT_EQ(Names(), (std::vector<std::string>{"a", "b", "d"}));
  EXPECT_EQ(Text(*a), std::string(1000, 'a'));

  const auto b = Take(cache, "b"), d = Take(cache, "d");
  EXPECT_FALSE(Take(cache, "c"));
  EXPECT_THAT(why_, HasSubstr("no room"));
  EXPECT_EQ(Names(), (std::vector<std::string>{"a", "b", "d"}));
}

TEST_F(ShardCacheTest, TheLimitIsThatOfAllStoresTogether) {
  Source("a");
  Source("b");
  const std::string other = "fedcba9876543210";
  Take(Cache(1500), "a");
  ASSERT_TRUE(Take(Cache(1500, other), "b"));
  EXPECT_TRUE(Names().empty());
  EXPECT_EQ(Names(other), std::vector<std::string>{"b"});
}

// The folder may be a disk that people keep other things on.
TEST_F(ShardCacheTest, WhatIsNotItsOwnStaysAndDoesNotCount) {
  for (const char* name : {"a", "b"}) Source(name);
  std::vector<fs::path> files;
  for (const std::string& name : {std::string("thesis/chapter.tex"), "thesis/" + ShardOf("a"),
                                  std::string("00000000000000AA/index.bin"), std::string("deep/") + kKey + "/index.bin",
                                  std::string(kKey) + "/notes.txt", std::string(kKey) + "/shard-one.frames",
                                  std::string(kKey) + "/shard-1.frames", std::string(kKey) + "/more/index.bin"}) {
    files.push_back(folder_ / "cache" / name);
    fs::create_directories(files.back().parent_path());
    WriteFileAtomically(files.back(), std::string(1000, 'x'));
    SetAge(files.back(), 60);
  }
  fs::create_directory_symlink(folder_ / "cache/thesis", folder_ / "cache/0000000000000001");
  ASSERT_TRUE(Take(Cache(1500), "a")) << why_;
  ASSERT_TRUE(Take(Cache(1500), "b")) << why_;
  EXPECT_FALSE(fs::exists(Copy("a"))) << "the cache's own makes room";
  for (const fs::path& file : files) EXPECT_TRUE(fs::exists(file)) << file;
}

TEST_F(ShardCacheTest, WhatACrashLeftMakesRoom) {
  Source("a");
  const std::string index = (folder_ / "cache" / kKey / "index.bin").string();
  for (const std::string& left : {index, index + ".part", Copy("b").string() + ".part"}) {
    fs::create_directories(fs::path(left).parent_path());
    WriteFileAtomically(left, std::string(1000, 'x'));
    SetAge(left, 60);
  }
  ASSERT_TRUE(Take(Cache(1500), "a")) << why_;
  EXPECT_EQ(Names(), std::vector<std::string>{"a"});
}

TEST_F(ShardCacheTest, AFileLargerThanTheLimitIsNotCached) {
  Source("a");
  EXPECT_FALSE(Take(Cache(999), "a"));
  EXPECT_THAT(why_, HasSubstr("more than the cache"));
  EXPECT_TRUE(Names().empty());
}

TEST_F(ShardCacheTest, AFullDiskLeavesNothingAndSaysSo) {
  testing::SmallDisk disk(64);
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small disk needs root";
  Source("a", 200'000);
  const ShardCache cache(disk.path() / "cache", kKey, 1'000'000);
  EXPECT_FALSE(Take(cache, "a", 200'000));
  EXPECT_THAT(why_, HasSubstr("No space left"));
  EXPECT_TRUE(fs::is_empty(disk.path() / "cache" / kKey));
}

TEST_F(ShardCacheTest, AFolderThatCannotBeWrittenIsSaid) {
  Source("a");
  WriteFileAtomically(folder_ / "cache", "a file stands here");
  EXPECT_FALSE(Take(Cache(5000), "a"));
  EXPECT_FALSE(why_.empty());
}

TEST_F(ShardCacheTest, ProcessesShareAFolder) {
  constexpr int kProcesses = 4;
  std::map<std::string, int> names;
  for (char c = 'a'; c < 'a' + 6; ++c) Source(std::string(1, c), 100'000);
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = ::fork();
    if (child == 0) {
      int wrong = 0;
      // Room for four of the six.
      const ShardCache cache = Cache(400'000);
      for (int round = 0; round < 40; ++round) {
        const std::string name(1, static_cast<char>('a' + (round * (p + 1) + p) % 6));
        const auto taken = Take(cache, name, 100'000);
        if (taken && Text(*taken) != std::string(100'000, name[0])) ++wrong;
      }
      ::_exit(wrong);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  for (const std::string& name : Names()) EXPECT_EQ(name.size(), 1u) << name << " was left over";
  EXPECT_EQ(Names().size(), 4u);
}

// Nor may what the system refuses cost a copy that took an hour to fetch.
TEST_F(ShardCacheTest, AGoodCopyOutlivesALackOfDescriptors) {
  if (antiphon::testing::kSanitized) GTEST_SKIP() << "a sanitizer needs descriptors, too";
  Source("a");
  const ShardCache cache = Cache(5000);
  ASSERT_TRUE(Take(cache, "a"));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(STDIN_FILENO);
  ASSERT_GE(next, 0);
  ::close(next);
  const rlimit one_more{static_cast<rlim_t>(next + 1), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &one_more), 0);
  const bool taken = Take(cache, "a").has_value();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(taken);
  EXPECT_THAT(why_, HasSubstr("Too many open files"));
  EXPECT_EQ(Names(), std::vector<std::string>{"a"});
}

// A lock that a thread of the parent holds is held for ever in a process that was forked meanwhile.
TEST(ShardFetcher, AForkedProcessWaitsForNobody) {
  const testing::TemporaryFolder folder;
  std::promise<void> locked, go_on;
  ShardFetcher::Source source;
  source.describe = [](size_t, const auto&) -> CacheEntry { throw InputError("it cannot be fetched"); };
  source.name = [&](size_t) {  // asked for, for the log, under the lock
    locked.set_value();
    go_on.get_future().wait();
    return std::string("the shard");
  };
  source.has_originals = true;
  ShardFetcher fetcher(ShardCache(folder / "cache", kKey, 1000), 1, source);
  const size_t wanted[] = {0};
  fetcher.Want(0, wanted);
  locked.get_future().wait();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    fetcher.ReleasePages();
    ::_exit(0);
  }
  go_on.set_value();
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// The same frames, whether they come from the original or from a copy, and also where the original is gone.
TEST(CachedStore, ReadsTheSameFrames) {
  const testing::TemporaryFolder folder;
  MakeStore(folder / "store", 60, 5, 30, {.shard_mib = 1});
  const FrameStore plain(folder / "store");
  FrameStoreAccess access;
  access.cache.cache_dir = folder / "cache";
  const FrameStore cached(folder / "store", access);
  std::vector<size_t> shards;
  for (size_t s = 0; s < cached.num_shards(); ++s) shards.push_back(s);
  const auto same = [&](size_t u) {
    Matrix a(plain.utterances()[u].num_frames, 5), b(plain.utterances()[u].num_frames, 5);
    plain.ReadFrames(u, 0, a);
    cached.ReadFrames(u, 0, b);
    return std::equal(a.data(), a.data() + a.size(), b.data());
  };
  EXPECT_TRUE(same(3));
  cached.FetchAhead(0, shards);
  for (size_t u = 0; u < 60; ++u) EXPECT_TRUE(same(u)) << u;  // while they are fetched
  EXPECT_EQ(cached.FinishFetching(), cached.num_shards());
  for (size_t u = 0; u < 60; ++u) EXPECT_TRUE(same(u)) << u;
  EXPECT_EQ(cached.CountPdfs(), plain.CountPdfs());
  // What is read is the copy: a change of it shows.
  const FrameStore again(folder / "store", access);
  for (size_t s = 0; s < again.num_shards(); ++s) {
    std::ofstream(again.ShardFile(s), std::ios::binary | std::ios::in | std::ios::out) << "damaged original";
  }
  again.FetchAhead(0, shards);
  EXPECT_EQ(again.FinishFetching(), again.num_shards());
  Matrix m(again.utterances()[0].num_frames, 5);
  again.ReadFrames(0, 0, m);
}

}  // namespace
}  // namespace antiphon::data
