// What antiphon top shows, made of a run's records.
#include "report/pages/run_overview.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace antiphon::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<MetricsRecord> HalfARun() {
  MetricsRecord start("start");
  start.Set("held_out_loss", 3.0);
  MetricsRecord step("step");
  step.Set("epoch", 2).Set("step", 40).Set("frames", 5000).Set("progress", 0.5).Set("train_loss", 1.25);
  step.Set("train_accuracy", 0.5).Set("learning_rate", 0.1).Set("frames_per_second", 100.0);
  MetricsRecord epoch("epoch");
  epoch.Set("held_out_loss", 1.5).Set("held_out_accuracy", 0.4);
  epoch.Set("rank_arithmetic_seconds", std::vector<double>{5, 10})
      .Set("rank_waiting_seconds", std::vector<double>{5, 0});
  epoch.Set("rank_exchange_seconds", std::vector<double>{0, 0}).Set("rank_reading_seconds", std::vector<double>{0, 0});
  epoch.Set("rank_other_seconds", std::vector<double>{0, 0}).Set("rank_machines", std::vector<double>{0, 1});
  epoch.Set("rank_awaited_seconds", std::vector<double>{0, 5}).Set("longest_wait", std::vector<double>{0, 1, 5});
  return {start, epoch, step};
}

TEST(RunOverview, ShowsProgressLossesAndWorkers) {
  const std::vector<std::string> lines = OverviewOfRun(HalfARun(), 200);
  ASSERT_EQ(lines.size(), 8u);
  // 5000 frames are left, at 100 per second.
  EXPECT_THAT(lines[0], HasSubstr("50.0 %, epoch 2, step 40, 0:50 left"));
  EXPECT_EQ(lines[1], "train loss 1.2500, accuracy 50.00 %; held-out loss 1.5000, accuracy 40.00 %");
  EXPECT_THAT(lines[5], HasSubstr("###############..............."));  // half arithmetic, half waiting
  EXPECT_THAT(lines[6], HasSubstr("##############################"));
  EXPECT_EQ(lines[7], "longest wait of the last epoch: worker 0, 5 s for worker 1, for which all waited 5 s");
  for (const std::string& line : OverviewOfRun(HalfARun(), 30)) EXPECT_LE(line.size(), 30u);
}

TEST(RunOverview, CutsLinesBetweenCharacters) {
  std::vector<MetricsRecord> records = HalfARun();
  MetricsRecord event("event");
  event.Set("message", "loss 2× 語");
  records.push_back(event);
  const auto event_line = [&](int width) { return OverviewOfRun(records, width)[3]; };
  EXPECT_EQ(event_line(18), "last event: loss 2");
  EXPECT_EQ(event_line(19), "last event: loss 2×");
  EXPECT_EQ(event_line(21), "last event: loss 2× ");  // the next sign takes two columns
  EXPECT_EQ(event_line(22), "last event: loss 2× 語");
}

TEST(RunOverview, TakesTheLastEpochWhereNoStepIsLogged) {
  MetricsRecord epoch("epoch");
  epoch.Set("epoch", 2).Set("step", 30).Set("train_loss", 1.25).Set("train_accuracy", 0.5);
  epoch.Set("held_out_loss", 1.5).Set("held_out_accuracy", 0.4).Set("learning_rate", 0.05);
  epoch.Set("frames_per_second", 1234);
  EXPECT_THAT(OverviewOfRun({MetricsRecord("start"), epoch}, 200),
              ElementsAre("epoch 2 done, step 30",
                          "train loss 1.2500, accuracy 50.00 %; held-out loss 1.5000, accuracy 40.00 %",
                          "1234 frames/s, learning rate 0.05"));
}

TEST(RunOverview, SaysWhenARunHasNotBegunAndWhenItIsFinished) {
  EXPECT_THAT(OverviewOfRun({}, 80), ElementsAre("no step yet"));
  std::vector<MetricsRecord> records = HalfARun();
  MetricsRecord finish("finish");
  finish.Set("epochs", 3).Set("seconds", 61.0).Set("held_out_loss", 1.0).Set("held_out_accuracy", 0.75);
  records.push_back(finish);
  EXPECT_THAT(OverviewOfRun(records, 200)[0], HasSubstr("finished after 3 epochs"));
  EXPECT_THAT(OverviewOfRun(records, 200)[1], HasSubstr("held-out loss 1.0000, accuracy 75.00 %"));
  // It goes on behind its end.
  MetricsRecord step("step");
  step.Set("epoch", 4).Set("progress", 0.75);
  records.push_back(step);
  EXPECT_THAT(OverviewOfRun(records, 200)[0], HasSubstr("75.0 %, epoch 4"));
}

}  // namespace
}  // namespace antiphon::report
