// A run folder that somebody else works in, or whose log is not what the checkpoint remembers.
#include <gtest/gtest.h>

#include <fstream>
#include <utility>

#include "base/cancel.h"
#include "base/file.h"
#include "base/folder_lock.h"
#include "base/loss_text.h"
#include "report/metrics.h"
#include "temporary_folder.h"
#include "train/run_log.h"
#include "train/synthetic_task.h"
#include "train/training_request.h"

namespace antiphon::train {
namespace {

namespace fs = std::filesystem;

class RunFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    ResetCancel();
    store_ = MakeSyntheticStore(folder_ / "store", {.speakers = 3, .utterances_per_speaker = 4});
  }
  void TearDown() override { ResetCancel(); }

  // One step, a checkpoint, and the end.
  void Break(const fs::path& run) {
    RequestCancel();
    EXPECT_THROW(TrainHere(SmallTask(store_, run), SmallOptions()), Cancelled);
    ResetCancel();
  }

  testing::TemporaryFolder folder_;
  std::shared_ptr<const data::FrameStore> store_;
};

TEST_F(RunFolder, TakesOneTrainingAtATime) {
  const TrainingTask task = SmallTask(store_, folder_ / "run");
  const uint64_t hash = TrainHere(task, SmallOptions()).model_hash;
  const std::string metrics = ReadFile(task.folder / "metrics.jsonl");
  {
    const FolderLock other(task.folder, "train.lock", "held");
    try {
      TrainHere(task, SmallOptions());
      FAIL() << "two trainings in one folder";
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find("another training is working in"), std::string::npos) << e.what();
    }
    EXPECT_EQ(ReadFile(task.folder / "metrics.jsonl"), metrics);
  }
  EXPECT_EQ(TrainHere(task, SmallOptions(), true).model_hash, hash);
}

// Of a request, which tells more of itself than a task.
TEST_F(RunFolder, ATrainingThatIsRefusedLeavesTheConfigurationThatIsThere) {
  TrainingRequest request;
  request.store = (folder_ / "store").string();
  request.out = (folder_ / "run").string();
  request.network = Config::Parse("[[layer]]\ntype = 'affine'\n", "network");
  request.train = SmallOptions();
  const auto group = comm::ProcessGroup::Alone();
  const auto train = [&](const std::string& versions) {
    RunTraining(request, {.group = *group, .threads = [] { return 1; }, .versions = [versions] { return versions; }});
  };
  train("first");
  const std::string config = ReadFile(folder_ / "run" / "config.toml");
  EXPECT_NE(config.find("learning-rate = 0.5"), std::string::npos) << config;
  request.train.schedule.learning_rate = 0.25;
  {
    const FolderLock other(folder_ / "run", "train.lock", "held");
    EXPECT_THROW(train("second"), UsageError);
  }
  request.resume = true;
  EXPECT_THROW(train("third"), InputError) << "another experiment";
  EXPECT_EQ(ReadFile(folder_ / "run" / "config.toml"), config);
  EXPECT_EQ(ReadFile(folder_ / "run" / "versions.txt"), "first");
  request.resume = false;
  train("fourth");
  EXPECT_NE(ReadFile(folder_ / "run" / "config.toml").find("learning-rate = 0.25"), std::string::npos);
  EXPECT_EQ(ReadFile(folder_ / "run" / "versions.txt"), "fourth");
}

// As MPI has it when a process dies and the others can go on: before the first world has begun, or when it is over.
class LosesAProcess : public comm::ProcessGroup {
 public:
  explicit LosesAProcess(bool late) : late_(late) {}
  int process() const override { return 0; }
  int num_processes() const override { return 1; }
  int processes_on_host() const override { return 1; }
  std::string Describe() const override { return "one that loses another"; }
  void RunRanks(int world_size, const std::function<void(comm::Communicator&)>& body) override {
    const bool loses = std::exchange(loses_, false);
    if (!loses || late_) comm::RunRanks(world_size, body);
    if (loses) throw comm::PeerLost("a process died");
  }
  int LeaveOutLostProcesses() override { return 1; }

 private:
  bool late_;
  bool loses_ = true;
};

TEST_F(RunFolder, OnlyARunThatHasBegunIsGoneOnWithAfterALoss) {
  TrainingRequest request;
  request.store = (folder_ / "store").string();
  request.out = (folder_ / "run").string();
  request.network = Config::Parse("[[layer]]\ntype = 'affine'\n", "network");
  request.train = SmallOptions();
  int epochs = 0;
  request.on_metrics = [&](const std::string& json) { epochs += report::RecordOf(json).kind() == "epoch" ? 1 : 0; };
  const auto train = [&](bool late, bool resume) {
    LosesAProcess group(late);
    request.resume = resume;
    epochs = 0;
    RunTraining(request, {.group = group, .threads = [] { return 1; }});
    return epochs;
  };
  RunTraining(request, {.group = *comm::ProcessGroup::Alone(), .threads = [] { return 1; }});
  EXPECT_EQ(train(false, false), 3) << "the earlier run is replaced";
  EXPECT_EQ(train(false, true), 0) << "and gone on with if it was asked for";
  EXPECT_EQ(train(true, false), 3) << "and this one, which was finished, too";
  request.train.schedule.learning_rate = 0.25;
  EXPECT_EQ(train(false, false), 3) << "another experiment";
}

TEST_F(RunFolder, ADamagedLogIsSetAsideAndTheCheckpointGoesOn) {
  const uint64_t whole = TrainHere(SmallTask(store_, folder_ / "whole"), SmallOptions()).model_hash;
  const auto damage = std::vector<std::function<void(const fs::path&)>>{
      [](const fs::path& file) { fs::remove(file); },
      [](const fs::path& file) { fs::resize_file(file, fs::file_size(file) - 3); },
      [](const fs::path& file) { std::fstream(file) << "#"; }};
  for (size_t i = 0; i < damage.size(); ++i) {
    const fs::path run = folder_ / ("run" + std::to_string(i));
    Break(run);
    damage[i](run / "metrics.jsonl");
    EXPECT_EQ(TrainHere(SmallTask(store_, run), SmallOptions(), true).model_hash, whole) << i;
    EXPECT_EQ(report::ReadMetrics(run / "metrics.jsonl").back().kind(), "finish") << i;
    EXPECT_EQ(fs::exists(run / "metrics.jsonl.damaged"), i > 0) << i;
  }
}

TEST_F(RunFolder, ALogThatIsAsItWasIsContinued) {
  const fs::path run = folder_ / "run";
  Break(run);
  TrainHere(SmallTask(store_, run), SmallOptions(), true);
  EXPECT_EQ(report::ReadMetrics(run / "metrics.jsonl").front().kind(), "start");
  EXPECT_FALSE(fs::exists(run / "metrics.jsonl.damaged"));
}

TEST_F(RunFolder, TheSpeedAfterGoingOnIsThatOfTheNewSteps) {
  const fs::path run = folder_ / "run";
  Break(run);
  const fs::path file = CheckpointFolder(CheckpointPath(run), 0, 1, 1).File(BreakOffAfter(100, run));
  {
    // A run that had taken a thousand years.
    const SafetensorsReader reader(file);
    SafetensorsWriter writer;
    for (const auto& [key, value] : reader.metadata()) {
      if (key != "antiphon_checksum") writer.SetMetadata(key, key == "position.arithmetic_seconds" ? "3e10" : value);
    }
    for (const std::string& name : reader.Names()) {
      const TensorView& tensor = reader.Tensor(name);
      writer.Add(name, tensor.type, tensor.shape, tensor.data);
    }
    writer.Write(file);
  }
  std::vector<double> speeds;
  TrainingTask task = SmallTask(store_, run);
  task.on_metrics = [&](const std::string& json) {
    const report::MetricsRecord record = report::RecordOf(json);
    if (record.kind() == "step") speeds.push_back(record.Number("frames_per_second").value_or(0));
  };
  TrainHere(task, SmallOptions(), true);
  ASSERT_FALSE(speeds.empty());
  EXPECT_GT(speeds.front(), 1) << "frames of the new steps by the time of all";
}

TEST(LossText, ShowsSmallLossesToo) {
  EXPECT_EQ(LossText(1.234567), "1.2346");
  EXPECT_EQ(LossText(0), "0.0000");
  EXPECT_EQ(LossText(0.0000312), "3.12e-05");
  EXPECT_EQ(LossText(0.0213), "0.0213");
}

}  // namespace
}  // namespace antiphon::train
