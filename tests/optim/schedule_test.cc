#include "optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "temporary_folder.h"

namespace antiphon::optim {
namespace {

TEST(Schedule, NewbobFollowsItsPublishedTrace) {
  ScheduleOptions options;
  options.type = ScheduleType::kNewbob;
  options.learning_rate = 0.8;
  options.epochs = 20;
  Schedule schedule(options);
  schedule.SetInitialLoss(5.0);
  struct Step {
    double loss;
    bool accept;
    bool stop;
    double next_rate;
  };
  // Improvements: 40 %, 0.5 % (halving begins), worse (rejected; an improvement of 0 while halving ends it).
  const Step trace[] = {{3.0, true, false, 0.8},
                        {2.985, true, false, 0.4},
                        {2.9, true, false, 0.2},
                        {2.88, true, false, 0.1},
                        {2.879, true, true, 0.05}};
  for (const Step& step : trace) {
    const EpochDecision decision = schedule.EndEpoch(step.loss);
    EXPECT_EQ(decision.accept, step.accept) << step.loss;
    EXPECT_EQ(decision.stop, step.stop) << step.loss;
    EXPECT_DOUBLE_EQ(schedule.LearningRate(0.5), step.next_rate) << step.loss;
  }
}

TEST(Schedule, NewbobRejectsAWorseEpochAndEndsWhileHalving) {
  ScheduleOptions options;
  options.type = ScheduleType::kNewbob;
  options.learning_rate = 1.0;
  Schedule schedule(options);
  schedule.SetInitialLoss(4.0);
  EpochDecision decision = schedule.EndEpoch(4.5);  // worse: rejected, halving begins
  EXPECT_FALSE(decision.accept);
  EXPECT_FALSE(decision.stop);
  EXPECT_DOUBLE_EQ(schedule.LearningRate(0), 0.5);
  EXPECT_DOUBLE_EQ(schedule.best_loss(), 4.0);
  decision = schedule.EndEpoch(4.1);  // rejected again: the end
  EXPECT_FALSE(decision.accept);
  EXPECT_TRUE(decision.stop);
}

TEST(Schedule, ExponentialRunsFromFirstToLastRate) {
  ScheduleOptions options;
  options.type = ScheduleType::kExponential;
  options.learning_rate = 0.8;
  options.final_learning_rate = 0.008;
  options.warmup = 0.1;
  Schedule schedule(options);
  EXPECT_DOUBLE_EQ(schedule.LearningRate(0), 0);
  EXPECT_NEAR(schedule.LearningRate(0.05), 0.5 * 0.8 * std::pow(0.01, 0.05), 1e-12);
  EXPECT_NEAR(schedule.LearningRate(0.5), 0.08, 1e-12);
  EXPECT_NEAR(schedule.LearningRate(1.0), 0.008, 1e-12);
  schedule.ScaleRates(0.5);
  EXPECT_NEAR(schedule.LearningRate(1.0), 0.004, 1e-12);
}

TEST(Schedule, RefusesAnImpossiblePlan) {
  ScheduleOptions rising;
  rising.learning_rate = 0.1;
  rising.final_learning_rate = 0.2;
  EXPECT_THROW(Schedule{rising}, UsageError);
  ScheduleOptions zero;
  zero.final_learning_rate = 0;
  EXPECT_THROW(Schedule{zero}, UsageError);
}

TEST(Schedule, GoesOnWhereItWasSaved) {
  ScheduleOptions options;
  options.type = ScheduleType::kNewbob;
  Schedule schedule(options);
  schedule.SetInitialLoss(4.0);
  schedule.EndEpoch(3.0);
  schedule.EndEpoch(2.99);
  schedule.ScaleRates(0.7);
  const testing::TemporaryFolder folder;
  const auto path = folder / "schedule.safetensors";
  SafetensorsWriter writer;
  schedule.SaveState(writer, "run");
  writer.Write(path);
  Schedule resumed(options);
  resumed.LoadState(SafetensorsReader(path), "run");
  EXPECT_EQ(resumed.LearningRate(0.3), schedule.LearningRate(0.3));
  EXPECT_EQ(resumed.epochs_done(), 2);
  EXPECT_EQ(resumed.EndEpoch(2.98).stop, schedule.EndEpoch(2.98).stop);
  EXPECT_EQ(resumed.LearningRate(0.3), schedule.LearningRate(0.3));
}

}  // namespace
}  // namespace antiphon::optim
