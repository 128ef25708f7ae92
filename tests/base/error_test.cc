#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "base/cancel.h"
#include "base/check.h"

namespace antiphon {
namespace {

using ::testing::HasSubstr;

TEST(Error, ReadsFromWhatWasAskedForDownToTheCause) {
  try {
    WithContext(
        [] {
          WithContext([] { Throw<ShapeError>("expected {} columns, found {}", 40, 13); },
                      [] { return "utterance 'a1'"; });
        },
        [] { return "antiphon train"; });
    FAIL();
  } catch (const InputError& e) {
    EXPECT_STREQ(e.what(), "antiphon train:\n  utterance 'a1':\n  expected 40 columns, found 13");
    EXPECT_EQ(e.message(), "expected 40 columns, found 13");
  }
}

TEST(Check, ShowsBothValues) {
  const int found = 3;
  try {
    CHECK_EQ(found, 4) << "while counting";
    FAIL();
  } catch (const InternalError& e) {
    EXPECT_THAT(e.what(), HasSubstr("found == 4"));
    EXPECT_THAT(e.what(), HasSubstr("3 against 4"));
    EXPECT_THAT(e.what(), HasSubstr("while counting"));
    EXPECT_THAT(e.what(), HasSubstr("error_test.cc"));
  }
}

TEST(Cancel, IsSeenAfterTheFirstSignal) {
  InstallCancelHandlers();
  EXPECT_NO_THROW(ThrowIfCancelled("waiting"));
  ::raise(SIGTERM);
  EXPECT_TRUE(CancelRequested());
  EXPECT_THROW(ThrowIfCancelled("waiting"), Cancelled);
  ResetCancel();
  EXPECT_FALSE(CancelRequested());
}

TEST(Cancel, AClosedTerminalAsksOnceUnlessItIsIgnored) {
  ::signal(SIGHUP, SIG_IGN);
  InstallCancelHandlers();
  ::raise(SIGHUP);
  EXPECT_FALSE(CancelRequested());
  ::signal(SIGHUP, SIG_DFL);
  InstallCancelHandlers();
  ::raise(SIGHUP);
  ::raise(SIGHUP);
  EXPECT_TRUE(CancelRequested());
  ResetCancel();
}

TEST(CancelDeathTest, TheSecondSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        InstallCancelHandlers();
        ::raise(SIGINT);
        ::raise(SIGINT);
      },
      ::testing::ExitedWithCode(1), "");
}

}  // namespace
}  // namespace antiphon
