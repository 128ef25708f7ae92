// When a training under way looks for a request for another number of workers, and what becomes of the request.
#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "base/compute_threads.h"
#include "base/folder_lock.h"
#include "temporary_folder.h"
#include "train/synthetic_task.h"
#include "train/workers_request.h"

namespace antiphon::train {
namespace {

class Requests : public ::testing::Test {
 protected:
  static constexpr int kWorkers = 2, kAsked = 3;

  TrainingTask Task(const std::string& parallel) const {
    TrainingTask task = SmallTask(store_, folder_ / "run");
    task.network = Config::Parse(
        "[[layer]]\ntype = \"repeat\"\ntimes = 2\nlayers = [{type = \"affine\", dim = 16}, {type = \"sigmoid\"}]\n"
        "[[layer]]\ntype = \"affine\"\n",
        "network");
    task.parallel = Config::Parse(parallel, "parallel");
    return task;
  }
  static TrainOptions Options() {
    TrainOptions options = SmallOptions();
    options.checkpoint.steps = 0;
    options.deadline_seconds = 60;
    return options;
  }
  static void Train(const TrainingTask& task, const TrainOptions& options, int workers, bool resume) {
    comm::RunRanks(workers, [&](comm::Communicator& comm) {
      SetComputeThreads(1);
      Trainer(task, options, comm).Run(resume);
    });
  }
  // What a run by `parallel` says when it is asked for kAsked workers as soon as it has begun.
  std::string Asked(const std::string& parallel, const TrainOptions& options = Options()) const {
    TrainingTask task = Task(parallel);
    task.on_folder_taken = [&] { LeaveRequest(task.folder, {.workers = kAsked, .launch = ""}); };
    try {
      Train(task, options, kWorkers, false);
      ADD_FAILURE() << parallel << " came to its end";
    } catch (const WorkersChanged& e) {
      EXPECT_EQ(e.workers(), kAsked);
      return e.what();
    }
    return "";
  }
  static int64_t StepsIn(const std::string& message) {
    std::smatch found;
    EXPECT_TRUE(std::regex_search(message, found, std::regex("after ([0-9]+) steps"))) << message;
    return found.empty() ? -1 : std::stoll(found[1]);
  }

  testing::TemporaryFolder folder_;
  std::shared_ptr<const data::FrameStore> store_ = MakeSyntheticStore(folder_ / "store");
};

TEST_F(Requests, AreLookedForEverySixteenSteps) { EXPECT_EQ(StepsIn(Asked("method = \"ssgd\"\n")), 16); }

// Bound to each other, no worker takes many while the first one, which looks, does not get the processor.
TEST_F(Requests, AreLookedForByAsgdAtEveryMinibatch) {
  EXPECT_LT(StepsIn(Asked("method = \"asgd\"\npush-every = 1\nstaleness-bound = 1\n")), 8);
}

TEST_F(Requests, WaitForTheEndOfThePipelinesEpoch) {
  EXPECT_NE(Asked("method = \"pipeline\"\n").find("in epoch 2 after"), std::string::npos);
}

TEST_F(Requests, WaitUntilPreTrainingIsFinished) {
  TrainOptions options = Options();
  options.pretrain.method = ParseEnum("layer-wise", kPretrainMethods);
  options.pretrain.epochs_per_layer = 0.7;
  EXPECT_EQ(StepsIn(Asked("method = \"ssgd\"\n", options)), 16);
}

// To a run that somebody supervises, the request is one to stop.
TEST_F(Requests, WaitUntilPreTrainingOfASupervisedRunIsFinished) {
  TrainOptions options = Options();
  options.pretrain.method = ParseEnum("layer-wise", kPretrainMethods);
  options.pretrain.epochs_per_layer = 0.7;
  TrainingTask task = Task("method = \"ssgd\"\n");
  const FolderLock supervised(task.folder, kSuperviseLock, "another test supervises it");
  task.on_folder_taken = [&] { LeaveRequest(task.folder, {.workers = kAsked, .launch = ""}); };
  try {
    Train(task, options, kWorkers, false);
    ADD_FAILURE() << "it came to its end";
  } catch (const Cancelled& e) {
    EXPECT_NE(std::string(e.what()).find("in epoch 1 after 16 steps"), std::string::npos) << e.what();
  }
}

// A loss may put the change off: the request stays until the new number of workers has begun.
TEST_F(Requests, StayUntilTheyAreMet) {
  Asked("method = \"ssgd\"\n");
  EXPECT_TRUE(FindRequest(folder_ / "run").has_value());
  RemoveMetRequest(folder_ / "run", kWorkers);
  EXPECT_TRUE(FindRequest(folder_ / "run").has_value()) << "by another number";
  RemoveMetRequest(folder_ / "run", kAsked);
  EXPECT_FALSE(FindRequest(folder_ / "run").has_value());
  LeaveRequest(folder_ / "run", {.workers = kAsked, .launch = "mpirun"});
  RemoveMetRequest(folder_ / "run", kAsked);
  EXPECT_TRUE(FindRequest(folder_ / "run").has_value()) << "by other processes";
}

TEST_F(Requests, AreTakenAwayWhenTheNewWorkersBegin) {
  Asked("method = \"ssgd\"\n");
  TrainingTask task = Task("method = \"ssgd\"\n");
  bool there = true;
  task.on_folder_taken = [&] { there = FindRequest(task.folder).has_value(); };
  Train(task, Options(), kAsked, true);
  EXPECT_FALSE(there);
}

}  // namespace
}  // namespace antiphon::train
