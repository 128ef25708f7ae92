// What a run tells of its ranks' time: who is slow, and who waits for whom.
#include "train/rank_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>

#include "base/compute_threads.h"
#include "base/file.h"
#include "comm/rank_threads.h"
#include "parallel/surviving_communicator.h"
#include "report/metrics.h"
#include "report/pages/training_report.h"
#include "report/tensorboard.h"
#include "synthetic_task.h"
#include "temporary_folder.h"
#include "train/world.h"

namespace antiphon::train {
namespace {

using ::testing::HasSubstr;

class RankTimesOfRuns : public ::testing::Test {
 protected:
  // The records of epochs of a run of several workers.
  std::vector<report::MetricsRecord> Train(const std::string& name, const std::string& parallel,
                                           const std::string& cluster = "") {
    TrainingTask task = SmallTask(store_, folder_ / name);
    task.parallel = Config::Parse(parallel, "parallel");
    TrainOptions options = SmallOptions();
    options.schedule.epochs = 2;
    const auto alone = comm::ProcessGroup::Alone();
    RunWorkers(task.parallel, Config::Parse(cluster, "cluster"), 1, *alone, [&](comm::Communicator& comm) {
      SetComputeThreads(1);
      Trainer(task, options, comm).Run(false);
    });
    std::vector<report::MetricsRecord> epochs;
    for (const report::MetricsRecord& record : report::ReadMetrics(folder_ / name / "metrics.jsonl")) {
      if (record.kind() == "epoch") epochs.push_back(record);
    }
    return epochs;
  }

  testing::TemporaryFolder folder_;
  std::shared_ptr<const data::FrameStore> store_ = MakeSyntheticStore(folder_ / "store");
};

TEST_F(RankTimesOfRuns, NameTheSlowRankForWhichTheOthersWait) {
  const auto epochs = Train("slow", "method = 'ssgd'\nworkers = 3\nworld = 'simulated'\n",
                            "[host]\ngflops = 0.1\nstraggler-ranks = [1]\nstraggler-factor = 4\n");
  ASSERT_EQ(epochs.size(), 2u);
  for (const report::MetricsRecord& epoch : epochs) {
    const std::vector<double> arithmetic = epoch.List("rank_arithmetic_seconds");
    const std::vector<double> waiting = epoch.List("rank_waiting_seconds");
    const std::vector<double> awaited = epoch.List("rank_awaited_seconds");
    ASSERT_EQ(arithmetic.size(), 3u);
    // It takes four times as long, and the others wait for the difference.
    EXPECT_NEAR(arithmetic[1], 4 * arithmetic[0], 0.1 * arithmetic[1]);
    EXPECT_NEAR(arithmetic[0] + waiting[0], arithmetic[1] + waiting[1], 0.1 * arithmetic[1]);
    EXPECT_LT(waiting[1], 0.2 * waiting[0]);
    EXPECT_GT(awaited[1], 5 * (awaited[0] + awaited[2]));
    EXPECT_EQ(epoch.List("longest_wait").at(1), 1);
    EXPECT_EQ(epoch.List("rank_machines"), (std::vector<double>{0, 1, 2}));
    // Simulated devices have their data at hand.
    EXPECT_EQ(epoch.List("rank_reading_seconds"), std::vector<double>(3, 0.0));
  }
  EXPECT_THAT(ReadFile(folder_ / "slow" / "report.html"), HasSubstr("Where each worker"));
  EXPECT_THAT(ReadFile(folder_ / "slow" / report::TensorBoardWriter::kFileName), HasSubstr("rank_2/waiting"));
}

TEST_F(RankTimesOfRuns, MakeUpTheTimeOfTheFirstRank) {
  const auto epochs = Train("threads", "method = 'averaging'\nworkers = 2\nsync-period = 2\n");
  ASSERT_EQ(epochs.size(), 2u);
  double told = 0;
  for (const report::MetricsRecord& epoch : epochs) {
    for (const char* name : {"arithmetic", "waiting", "exchange", "reading", "other"}) {
      const std::vector<double> seconds = epoch.List(std::string("rank_") + name + "_seconds");
      ASSERT_EQ(seconds.size(), 2u) << name;
      for (const double s : seconds) EXPECT_GE(s, 0) << name;
      told += seconds[0];
    }
  }
  double spent = 0;
  for (const char* name : {"arithmetic_seconds", "data_seconds", "communication_seconds", "other_seconds"}) {
    spent += *epochs.back().Number(name);
  }
  EXPECT_NEAR(told, spent, 0.02 * spent + 1e-3);
}

// Rank 2, which is rank 1 when that is lost, waits for rank 0.
TEST_F(RankTimesOfRuns, KeepTheNumbersOfTheStartWhenARankIsLost) {
  report::MetricsRecord record("epoch");
  comm::RunLosableRanks(3, [&](comm::Communicator& whole) {
    parallel::SurvivingCommunicator comm(whole);
    comm.set_deadline_seconds(60);
    RankTimes times(comm);
    RunLog log(folder_ / "lost");
    comm.GoOn([](const parallel::Loss&) {});
    if (comm.rank() == 1) throw comm::RankLost("killed");
    comm.Together([&] { comm.Barrier(); });
    Position position;
    // Who waits says so right before, and has half a second to begin.
    if (comm.rank() == 0) comm.Receive(1, 8);
    times.StartAt(position);
    times.BeginStep();
    if (comm.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      comm.Send(1, 7, {});
    } else {
      comm.Send(0, 8, {});
      comm.Receive(0, 7);
    }
    times.EndStep();
    position.arithmetic_seconds = comm.rank() + 2;
    report::MetricsRecord told("epoch");
    times.Tell(position, told, log);
    if (comm.rank() == 0) record = told;
  });
  const std::vector<double> longest = record.List("longest_wait");
  ASSERT_EQ(longest.size(), 3u);
  EXPECT_EQ(longest[0], 2);
  EXPECT_EQ(longest[1], 0);
  EXPECT_GT(longest[2], 0.05);
  const std::vector<double> arithmetic = record.List("rank_arithmetic_seconds");
  ASSERT_EQ(arithmetic.size(), 3u);
  EXPECT_NEAR(arithmetic[0], 2, 0.05);
  EXPECT_EQ(arithmetic[1], 0);
  EXPECT_NEAR(arithmetic[2], 3 - longest[2], 0.05);
  EXPECT_EQ(record.List("rank_machines").size(), 3u);
}

TEST_F(RankTimesOfRuns, AreNotToldOfOneAlone) {
  const auto epochs = Train("alone", "method = 'serial'\n");
  ASSERT_EQ(epochs.size(), 2u);
  EXPECT_FALSE(epochs[0].Has("rank_waiting_seconds"));
  EXPECT_EQ(ReadFile(folder_ / "alone" / "report.html").find("Where each worker"), std::string::npos);
}

}  // namespace
}  // namespace antiphon::train
