// Pre-training: what it gives, and that it goes on bit by bit where it was broken off.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <map>
#include <string>

#include "train/mischief.h"
#include "train/trainer.h"

namespace antiphon::train {
namespace {

namespace fs = std::filesystem;

class PretrainTest : public TrainerTest, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Methods, PretrainTest, ::testing::Values("discriminative", "layer-wise", "rbm"),
                         [](const auto& test) {
                           return std::string(test.param) == "layer-wise" ? "layer_wise" : test.param;
                         });

TEST_P(PretrainTest, BrokenOffAnywhereAndResumedGivesTheSameBits) {
  TrainOptions options = SmallOptions();
  options.pretrain.method = ParseEnum(GetParam(), kPretrainMethods);
  options.pretrain.epochs_per_layer = 0.7;
  options.pretrain.gaussian_epochs_factor = 2;
  options.schedule.epochs = 1;
  options.checkpoint.steps = 7;
  const auto task = [&](const std::string& run) {
    TrainingTask deep = Task(run);
    deep.network = Config::Parse(
        "[[layer]]\ntype = \"mischief\"\n"
        "[[layer]]\ntype = \"repeat\"\ntimes = 3\nlayers = [{type = \"affine\", dim = 16}, {type = \"sigmoid\"}]\n"
        "[[layer]]\ntype = \"batch-norm\"\n[[layer]]\ntype = \"affine\"\n",
        "network");
    return deep;
  };
  TrainHere(task("whole"), options);
  // Stages take some 40 steps each (the Gaussian machine 80): in the first, before its first checkpoint and behind it;
  // in later ones, by signal and by force.
  int died = 0;
  bool resume = false;
  for (const int64_t call : {5, 30, 40, 45, 9}) {
    std::fflush(nullptr);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Mischief::Reset();
      (call % 2 == 0 ? Mischief::cancel_at_call : Mischief::kill_at_call) = call;
      SetComputeThreads(1);
      try {
        TrainHere(task("broken"), options, resume);
      } catch (const Cancelled& e) {
        ::_exit(std::string(e.what()).find("pre-training") != std::string::npos ? 7 : 8);
      } catch (...) {
        ::_exit(3);
      }
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    died += (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) || (WIFEXITED(status) && WEXITSTATUS(status) == 7);
    EXPECT_FALSE(fs::exists(CheckpointPath(folder_ / "broken") / "step-000000000.rank-0.safetensors"));
    resume = true;
  }
  EXPECT_EQ(died, 5);
  TrainHere(task("broken"), options, true);
  EXPECT_EQ(ModelBytes("whole"), ModelBytes("broken"));
  EXPECT_EQ(TimelessMetrics(folder_ / "whole"), TimelessMetrics(folder_ / "broken"));
  EXPECT_FALSE(fs::exists(CheckpointPath(folder_ / "broken") / "pretraining"));
}

TEST_P(PretrainTest, OfTwoWorkersSavesOnceWhatBothHaveAndGoesOnWithTheSameBits) {
  TrainOptions options = SmallOptions();
  options.pretrain.method = ParseEnum(GetParam(), kPretrainMethods);
  options.pretrain.epochs_per_layer = 0.7;
  options.schedule.epochs = 1;
  TrainingTask task = SmallTask(store_, folder_ / "whole");
  task.network = Config::Parse(
      "[[layer]]\ntype = \"repeat\"\ntimes = 2\nlayers = [{type = \"affine\", dim = 64}, {type = \"sigmoid\"}]\n"
      "[[layer]]\ntype = \"affine\"\n",
      "network");
  task.parallel = Config::Parse("method = \"ssgd\"\n", "parallel");
  const auto train = [&](bool resume, int workers = 2) {
    comm::RunRanks(workers, [&](comm::Communicator& comm) {
      SetComputeThreads(1);
      Trainer(task, options, comm).Run(resume);
    });
  };
  train(false);
  task.folder = folder_ / "broken";
  // The first stage has ended.
  task.on_metrics = [](const std::string& json) {
    if (report::RecordOf(json).kind() == "pretrain") RequestCancel();
  };
  EXPECT_THROW(train(false), Cancelled);
  ResetCancel();
  std::map<int, uintmax_t> bytes;
  for (const auto& entry : fs::directory_iterator(CheckpointPath(task.folder) / "pretraining")) {
    bytes[entry.path().string().find("rank-1") != std::string::npos ? 1 : 0] += fs::file_size(entry.path());
  }
  EXPECT_LT(bytes.at(1), bytes.at(0) / 2);
  task.on_metrics = nullptr;
  try {
    train(true, 3);
    ADD_FAILURE() << "other workers went on, or began anew";
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("go on with parallel.workers = 2 until then"), std::string::npos) << e.what();
  }
  train(true);
  EXPECT_EQ(ModelBytes("whole"), ModelBytes("broken"));
}

TEST_P(PretrainTest, GivesADeeperStartAndTrainsOn) {
  TrainOptions options = SmallOptions();
  options.pretrain.method = ParseEnum(GetParam(), kPretrainMethods);
  options.pretrain.epochs_per_layer = 1;
  TrainingTask task = SmallTask(store_, folder_ / "run");
  task.network = Config::Parse(
      "[[layer]]\ntype = \"repeat\"\ntimes = 3\nlayers = [{type = \"affine\", dim = 24}, {type = \"sigmoid\"}]\n"
      "[[layer]]\ntype = \"affine\"\n",
      "network");
  task.optimizer = Config::Parse("type = \"sgd\"\nmomentum = 0.9", "optimizer");
  options.schedule.learning_rate = 2;
  options.schedule.final_learning_rate = 0.5;
  // The machines start from nearly silent hidden units and need more steps than this little data has in an epoch.
  if (std::string(GetParam()) == "rbm") {
    options.pretrain.epochs_per_layer = 10;
    options.pretrain.rbm_gaussian_learning_rate = 0.1;
    options.schedule.epochs = 12;
  }
  const TrainingSummary summary = TrainHere(task, options);
  EXPECT_GT(summary.held_out_accuracy, 0.5);
  int layers = 0;
  double start_accuracy = 0;
  for (const auto& record : report::ReadMetrics(folder_ / "run/metrics.jsonl")) {
    layers += record.kind() == "pretrain" ? 1 : 0;
    if (record.kind() == "start") start_accuracy = *record.Number("held_out_accuracy");
  }
  EXPECT_EQ(layers, 3);
  if (std::string(GetParam()) != "rbm") {
    EXPECT_GT(start_accuracy, 0.3);
  }
}

}  // namespace
}  // namespace antiphon::train
