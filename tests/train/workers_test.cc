// The trainer with several workers, by a strategy of this file's own that averages after every step.
#include <gtest/gtest.h>
#include <omp.h>

#include "base/cancel.h"
#include "base/file.h"
#include "parallel/strategy.h"
#include "report/metrics.h"
#include "temporary_folder.h"
#include "train/synthetic_task.h"

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

TEST_F(WorkersTest, StartAnewWhenACheckpointLacksARank) {
  TrainTogether("run", 2);
  // The third rank has no checkpoint of its own, and so nobody has one that is whole: the run starts anew, and says so.
  EXPECT_EQ(TrainTogether("run", 3, true)[0].model_hash, TrainTogether("fresh", 3)[0].model_hash);
}

}  // namespace
}  // namespace antiphon::train
