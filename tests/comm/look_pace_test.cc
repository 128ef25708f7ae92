// When the thread that talks to MPI looks for messages again.
#include "comm/mpi/look_pace.h"

#include <gtest/gtest.h>

namespace antiphon::comm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

const LookPace::Clock::time_point kStart = LookPace::Clock::time_point() + std::chrono::hours(1);

TEST(LookPace, RestsLongWhereNothingHappens) {
  LookPace pace;
  for (int look = 0; look < 100; ++look) EXPECT_EQ(pace.After(false, false, kStart), LookPace::kLazyRest);
}

TEST(LookPace, GivesWayAndThenRestsALittleWhileARankWaits) {
  LookPace pace;
  int at_once = 0;
  while (pace.After(false, true, kStart).count() == 0) ASSERT_LT(++at_once, 1000);
  EXPECT_EQ(at_once, LookPace::kEagerLooks - 1);
  EXPECT_EQ(pace.After(false, true, kStart), LookPace::kEagerRest);
  EXPECT_EQ(pace.After(true, true, kStart), microseconds(0)) << "a message makes it eager again";
}

// A parameter server that computes: a worker asks it for a verdict, pushes, and pulls.
TEST(LookPace, ListensOnBehindAMessageWithoutSpinning) {
  LookPace pace;
  EXPECT_EQ(pace.After(true, false, kStart), LookPace::kAttentiveRest);
  EXPECT_EQ(pace.After(false, false, kStart + milliseconds(4)), LookPace::kAttentiveRest);
  EXPECT_EQ(pace.After(true, false, kStart + milliseconds(4)), LookPace::kAttentiveRest);
  EXPECT_EQ(pace.After(false, false, kStart + milliseconds(8)), LookPace::kAttentiveRest) << "since the last message";
  EXPECT_EQ(pace.After(false, false, kStart + milliseconds(9)), LookPace::kLazyRest);
  EXPECT_EQ(pace.After(false, false, kStart + milliseconds(9)), LookPace::kLazyRest) << "until the next message";
}

TEST(LookPace, WhatFailsIsNotTriedInAHurry) {
  LookPace pace;
  pace.After(true, false, kStart);
  pace.GiveUp();
  EXPECT_EQ(pace.After(false, false, kStart), LookPace::kLazyRest);
  EXPECT_EQ(pace.After(false, true, kStart), LookPace::kEagerRest);
}

}  // namespace
}  // namespace antiphon::comm
