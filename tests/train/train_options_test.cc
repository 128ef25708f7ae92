#include "train/train_options.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace antiphon::train {
namespace {

TEST(DropoutSchedule, IsLinearBetweenItsPoints) {
  const DropoutSchedule schedule("0,0@0.20,0.5@0.50,0");
  EXPECT_DOUBLE_EQ(schedule.Factor(0.0), 0.0);
  EXPECT_DOUBLE_EQ(schedule.Factor(0.2), 0.0);
  EXPECT_DOUBLE_EQ(schedule.Factor(0.35), 0.25);
  EXPECT_DOUBLE_EQ(schedule.Factor(0.5), 0.5);
  EXPECT_DOUBLE_EQ(schedule.Factor(0.75), 0.25);
  EXPECT_DOUBLE_EQ(schedule.Factor(1.0), 0.0);
}

TEST(DropoutSchedule, EmptyMeansAlwaysOneAndASingleValueIsConstant) {
  EXPECT_DOUBLE_EQ(DropoutSchedule("").Factor(0.3), 1.0);
  EXPECT_DOUBLE_EQ(DropoutSchedule("0.4").Factor(0.9), 0.4);
}

TEST(DropoutSchedule, RefusesWhatItCannotRead) {
  EXPECT_THROW(DropoutSchedule("0,x@0.5,1"), UsageError);
  EXPECT_THROW(DropoutSchedule("0,1@0.8,0@0.2,0"), UsageError);
  EXPECT_THROW(DropoutSchedule("0,0.5,1"), UsageError);
  EXPECT_THROW(DropoutSchedule("0,1@1.5"), UsageError);
}

}  // namespace
}  // namespace antiphon::train
