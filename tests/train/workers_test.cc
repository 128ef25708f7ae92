// The trainer with several workers, by a strategy of this file's own that averages after every step.
#include <gtest/gtest.h>
#include <omp.h>

#include "base/cancel.h"
#include "base/file.h"
#include "parallel/strategy.h"
#include "report/metrics.h"
#include "temporary_folder.h"
#include "train/synthetic_task.h"
#include "train/world.h"

namespace antiphon::train {
namespace {

class AverageEveryStep : public parallel::Strategy {
 public:
  using Strategy::Strategy;
  static inline int64_t cancel_at_step = -1;

 protected:
  optim::StepReport AfterStep(const parallel::StepInput& input) override {
    const optim::StepReport report = optimizer().EndStep();
    comm().AllReduce(network().values());
    for (float& v : network().values()) v /= static_cast<float>(comm().world_size());
    network().MarkChanged();
    if (input.context.step == cancel_at_step) RequestCancel();
    return report;
  }
};
REGISTER_COMPONENT(parallel::StrategyRegistry, "test-average", [](const Config&, const parallel::Replica& replica) {
  return std::make_unique<AverageEveryStep>(replica);
});

class WorkersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ResetCancel();
    AverageEveryStep::cancel_at_step = -1;
    store_ = MakeSyntheticStore(folder_ / "store");
  }
  void TearDown() override { ResetCancel(); }

  std::vector<TrainingSummary> TrainTogether(const std::string& run, int workers, bool resume = false) {
    TrainingTask task = SmallTask(store_, folder_ / run);
    task.network = Config::Parse(
        "[[layer]]\ntype = \"affine\"\ndim = 24\n[[layer]]\ntype = \"relu\"\n[[layer]]\ntype = \"affine\"\n", "n");
    task.parallel = Config::Parse("method = \"test-average\"\n", "parallel");
    TrainOptions options = SmallOptions();
    options.checkpoint.steps = 10;
    std::vector<TrainingSummary> summaries(static_cast<size_t>(workers));
    comm::RunRanks(workers, [&](comm::Communicator& comm) {
      omp_set_num_threads(1);
      summaries[static_cast<size_t>(comm.rank())] = Trainer(task, options, comm).Run(resume);
    });
    return summaries;
  }

  testing::TemporaryFolder folder_;
  std::shared_ptr<const data::FrameStore> store_;
};

TEST_F(WorkersTest, ShareTheDataAndEndWithOneModel) {
  const auto summaries = TrainTogether("run", 3);
  for (const TrainingSummary& summary : summaries) {
    EXPECT_EQ(summary.model_hash, summaries[0].model_hash);
    EXPECT_EQ(summary.held_out_loss, summaries[0].held_out_loss);
  }
  EXPECT_GT(summaries[0].held_out_accuracy, 0.6);
  // Each minibatch of an epoch is taken once, so an epoch has a third of a single worker's steps.
  EXPECT_EQ(summaries[0].steps, (TrainTogether("alone", 1)[0].steps + 2) / 3);
}

TEST_F(WorkersTest, ResumeAfterAStopIsBitIdentical) {
  const uint64_t whole = TrainTogether("whole", 2)[0].model_hash;
  AverageEveryStep::cancel_at_step = 60;
  EXPECT_THROW(TrainTogether("stopped", 2), Cancelled);
  ResetCancel();
  AverageEveryStep::cancel_at_step = -1;
  EXPECT_EQ(TrainTogether("stopped", 2, true)[0].model_hash, whole);
}

TEST_F(WorkersTest, OnASimulatedClusterGiveTheBitsOfThreads) {
  const uint64_t threads = TrainTogether("threads", 3)[0].model_hash;
  TrainingTask task = SmallTask(store_, folder_ / "simulated");
  task.network = Config::Parse(
      "[[layer]]\ntype = \"affine\"\ndim = 24\n[[layer]]\ntype = \"relu\"\n[[layer]]\ntype = \"affine\"\n", "n");
  task.parallel = Config::Parse("method = \"test-average\"\nworkers = 3\nworld = \"simulated\"\n", "parallel");
  const Config cluster = Config::Parse("host = {gflops = 0.5, jitter = 0.2, straggler-ranks = [1]}\n", "cluster");
  TrainOptions options = SmallOptions();
  options.checkpoint.steps = 10;
  TrainingSummary summary;
  const auto report = RunWorkers(task.parallel, cluster, 1, [&](comm::Communicator& comm) {
    const TrainingSummary mine = Trainer(task, options, comm).Run(false);
    if (comm.rank() == 0) summary = mine;
  });
  EXPECT_EQ(summary.model_hash, threads);
  ASSERT_TRUE(report);
  EXPECT_GT(summary.virtual_seconds, 0);
  EXPECT_GE(report->seconds(), summary.virtual_seconds);
  // The straggler computes all the time, the others wait for it.
  EXPECT_GT(report->ranks[1].compute_seconds, 0.9 * report->seconds());
  EXPECT_LT(report->ranks[0].compute_seconds, 0.5 * report->seconds());
}

TEST_F(WorkersTest, RefuseAnUnknownWorldAndAClusterThatNobodySimulates) {
  const auto nothing = [](comm::Communicator&) {};
  const Config cluster = Config::Parse("host = {gflops = 1}\n", "cluster");
  EXPECT_THROW(RunWorkers(Config::Parse("world = \"clouds\"\n", "p"), Config(), 1, nothing), UsageError);
  EXPECT_THROW(RunWorkers(Config::Parse("workers = 2\n", "p"), cluster, 1, nothing), UsageError);
  EXPECT_THROW(RunWorkers(Config::Parse("workers = 0\n", "p"), Config(), 1, nothing), UsageError);
  const Config wrong = Config::Parse("host = {gflop = 1}\n", "cluster");
  EXPECT_THROW(RunWorkers(Config::Parse("world = \"simulated\"\n", "p"), wrong, 1, nothing), UsageError);
}

TEST_F(WorkersTest, StartAnewWhenACheckpointLacksARank) {
  TrainTogether("run", 2);
  // The third rank has no checkpoint of its own, and so nobody has one that is whole: the run starts anew, and says so.
  EXPECT_EQ(TrainTogether("run", 3, true)[0].model_hash, TrainTogether("fresh", 3)[0].model_hash);
}

}  // namespace
}  // namespace antiphon::train
