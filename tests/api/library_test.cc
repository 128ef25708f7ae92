// What concerns the library as a whole: kinds of errors, the version, the log, requests to stop.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "antiphon/cancel.h"
#include "antiphon/error.h"
#include "antiphon/log.h"
#include "antiphon/recognizer.h"
#include "antiphon/version.h"
#include "api/two_words.h"
#include "base/error.h"
#include "base/log.h"
#include "infer/stream_pool.h"

namespace antiphon {
namespace {

using ::testing::HasSubstr;

TEST(Errors, HaveKinds) {
  EXPECT_EQ(KindOf(UsageError("")), ErrorKind::kUsage);
  EXPECT_EQ(KindOf(infer::OverloadError("")), ErrorKind::kUsage);
  EXPECT_EQ(KindOf(InputError("")), ErrorKind::kInput);
  EXPECT_EQ(KindOf(ShapeError("")), ErrorKind::kInput);
  EXPECT_EQ(KindOf(IoError("")), ErrorKind::kIo);
  EXPECT_EQ(KindOf(std::filesystem::filesystem_error("", std::error_code())), ErrorKind::kIo);
  EXPECT_EQ(KindOf(PeerError("")), ErrorKind::kPeer);
  EXPECT_EQ(KindOf(DivergenceError("")), ErrorKind::kDivergence);
  EXPECT_EQ(KindOf(Cancelled("")), ErrorKind::kCancelled);
  EXPECT_EQ(KindOf(std::bad_alloc()), ErrorKind::kMemory);
  EXPECT_EQ(KindOf(InternalError("")), ErrorKind::kInternal);
  EXPECT_EQ(KindOf(std::runtime_error("")), ErrorKind::kInternal);
  EXPECT_STREQ(NameOf(ErrorKind::kCancelled), "cancelled");
  try {
    Recognizer("/nonexistent.safetensors", "/graph");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kIo);
    EXPECT_EQ(KindOf(e), ErrorKind::kIo);
  }
}

TEST(LibraryVersion, IsThatOfTheHeaders) {
  EXPECT_EQ(LibraryVersion(), kHeaderVersion);
  const Version v = LibraryVersion();
  EXPECT_EQ(LibraryVersionText(), fmt::format("{}.{}.{}", v.major_number, v.minor_number, v.patch_number));
}

TEST(Log, GoesToTheCallbackAndNowhereElse) {
  std::vector<std::string> lines;
  SetLogCallback([&](LogLevel level, std::string_view message) {
    lines.push_back(fmt::format("{} {}", static_cast<int>(level), message));
  });
  log::Debug("not {}", "this");
  log::Info("{} of {}", 1, 2);
  log::Warn("three");
  EXPECT_EQ(lines, (std::vector<std::string>{"1 1 of 2", "2 three"}));
  SetLogCallback([&](LogLevel, std::string_view message) { lines.emplace_back(message); }, LogLevel::kDebug);
  log::Debug("all");
  EXPECT_EQ(lines.back(), "all");
  SetLogCallback([](LogLevel, std::string_view) { throw std::runtime_error("of the callback"); });
  ::testing::internal::CaptureStderr();
  log::Warn("four");
  SetLogCallback({});
  log::Warn("five");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(lines.size(), 3U);
}

TEST(Log, MayChangeWhileOthersWrite) {
  std::thread writer([] {
    for (int i = 0; i < 2000; ++i) log::Warn("{}", i);
  });
  for (int i = 0; i < 200; ++i) {
    int count = 0;  // gone when the next callback is set
    SetLogCallback([&count](LogLevel, std::string_view) { ++count; });
    SetLogCallback({});
  }
  writer.join();
}

std::atomic<bool> forking = false;

// A child has none of the threads that held locks when it was forked.
TEST(Log, GoesOnInAChildThatIsForkedWhileAnotherThreadWrites) {
  std::atomic<bool> inside = false;
  std::atomic<int> heard = 0;
  SetLogCallback([&](LogLevel, std::string_view) {
    inside = true;
    while (!forking) std::this_thread::yield();
    for (int i = 0; i < 1'000'000; ++i) ++heard;  // still at work when a fork that does not wait is over
  });
  // Before what the library does when forked.
  ::pthread_atfork([] { forking = true; }, nullptr, nullptr);
  std::thread writer([] { log::Warn("held"); });
  while (!inside) std::this_thread::yield();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    log::Warn("of the child");
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  writer.join();
  SetLogCallback({});
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(Log, MayBeHeardByACallbackThatForks) {
  int status = -1;
  SetLogCallback([&](LogLevel, std::string_view) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    ::waitpid(child, &status, 0);
  });
  log::Warn("once");
  log::Warn("and once more");
  SetLogCallback({});
  EXPECT_EQ(status, 0);
}

TEST(Log, TellsOfWordsThatTheGraphLacks) {
  const testing::TwoWords system(false);
  std::string told;
  SetLogCallback([&](LogLevel, std::string_view message) { told += message; });
  const Recognizer recognizer((system.folder / "net.safetensors").string(), (system.folder / "graph").string(),
                              {.hotwords = {{"THREE", 4}}});
  SetLogCallback({});
  EXPECT_THAT(told, HasSubstr("THREE"));
}

class Stopping : public ::testing::Test {
 protected:
  const testing::TwoWords system_{false};
  const Recognizer recognizer_{(system_.folder / "net.safetensors").string(),
                               (system_.folder / "graph").string(),
                               {.beam = 4, .options = "cut-above = 1.0"}};
};

TEST_F(Stopping, EndsACallThatHasNotBegun) {
  const CancelToken stop;
  stop.Cancel();
  EXPECT_TRUE(stop.cancelled());
  const std::vector<float> speech(8000, 0.1F);
  EXPECT_THROW(recognizer_.Recognize(speech, testing::kRateHz, {.cancel = stop}), Cancelled);
  EXPECT_NO_THROW(recognizer_.Recognize(speech, testing::kRateHz));
}

// However long the speech is, the call returns: the test would run for hours.
TEST_F(Stopping, EndsACallOfAnotherThread) {
  const CancelToken stop;
  std::vector<float> speech = testing::Noise(testing::kRateHz * 60);
  for (float& x : speech) x /= 32768;
  bool cancelled = false;
  std::thread worker([&] {
    try {
      for (;;) recognizer_.Recognize(speech, testing::kRateHz, {.cancel = stop});
    } catch (const std::exception& e) {
      cancelled = KindOf(e) == ErrorKind::kCancelled;
    }
  });
  stop.Cancel();
  worker.join();
  EXPECT_TRUE(cancelled);
}

TEST(RecognizerSettings, OutOfRangeAreRefusedByName) {
  const testing::TwoWords system(false);
  const auto message = [&](const RecognizerSettings& settings) -> std::string {
    try {
      const Recognizer recognizer((system.folder / "net.safetensors").string(), (system.folder / "graph").string(),
                                  settings);
    } catch (const UsageError& e) {
      return e.what();
    }
    return "none";
  };
  EXPECT_EQ(message({}), "none");
  EXPECT_THAT(message({.beam = -1}), HasSubstr("'beam'"));
  EXPECT_THAT(message({.nbest = -1}), HasSubstr("'nbest'"));
  EXPECT_THAT(message({.precision = "int9"}), HasSubstr("int9"));
  EXPECT_THAT(message({.threads = -1}), HasSubstr("'threads'"));
  EXPECT_THAT(message({.hotwords = {{"ONE", 1000}}}), HasSubstr("1000"));
  EXPECT_THAT(message({.hotwords = {{" "}}}), HasSubstr("without a word"));
  EXPECT_THAT(message({.options = "beem = 3"}), HasSubstr("beam"));
  EXPECT_THAT(message({.options = "beam = 'wide'"}), HasSubstr("RecognizerSettings::options:1"));
  EXPECT_THAT(message({.options = "beam ="}), HasSubstr("RecognizerSettings::options"));
}

}  // namespace
}  // namespace antiphon
