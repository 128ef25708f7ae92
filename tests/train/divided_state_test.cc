// Runs of synchronous SGD that divide the optimiser's state: the same model, and checkpoints that go on whoever held
// which part then.
#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/compute_threads.h"
#include "base/error.h"
#include "math/safetensors.h"
#include "temporary_folder.h"
#include "train/synthetic_task.h"

namespace antiphon::train {
namespace {

class DividedStateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ResetCancel();
    SetComputeThreads(1);
    store_ = MakeSyntheticStore(folder_ / "store");
  }
  void TearDown() override { ResetCancel(); }

  // To the end, or to where it is to pause after an epoch; 0 then.
  uint64_t Train(const std::string& run, int workers, const std::string& divide, bool pause, bool resume) {
    TrainingTask task = SmallTask(store_, folder_ / run);
    task.parallel = Config::Parse("method = \"ssgd\"\n" + divide, "parallel");
    task.optimizer = Config::Parse("type = \"adam\"\n", "optimizer");
    task.pause_after_epochs = pause ? 1 : 0;
    TrainOptions options = SmallOptions();
    options.schedule.learning_rate = 0.01;
    options.schedule.final_learning_rate = 0.002;
    uint64_t hash = 0;
    try {
      comm::RunRanks(workers, [&](comm::Communicator& comm) {
        SetComputeThreads(1);
        comm.set_deadline_seconds(60);
        const uint64_t mine = Trainer(task, options, comm).Run(resume).model_hash;
        if (comm.rank() == 0) hash = mine;
      });
    } catch (const Cancelled&) {
      EXPECT_TRUE(pause);
    }
    return hash;
  }
  uint64_t InTwoParts(const std::string& run, int workers_then, const std::string& then, int workers,
                      const std::string& now) {
    EXPECT_EQ(Train(run, workers_then, then, true, false), 0u);
    return Train(run, workers, now, false, true);
  }

  testing::TemporaryFolder folder_;
  std::shared_ptr<const data::FrameStore> store_;
};

constexpr const char* kWhole = "";
constexpr const char* kState = "divide = \"optimizer\"\n";
constexpr const char* kBoth = "divide = \"gradients\"\n";

TEST_F(DividedStateTest, LearnsTheSameModelAndGoesOnDividedOtherwise) {
  const uint64_t whole = Train("whole", 3, kWhole, false, false);
  EXPECT_NE(whole, 0u);
  EXPECT_EQ(Train("divided", 3, kBoth, false, false), whole);
  int run = 0;
  for (const auto& [then, now] : {std::pair(kBoth, kBoth), {kBoth, kWhole}, {kWhole, kState}, {kState, kBoth}}) {
    EXPECT_EQ(InTwoParts("part" + std::to_string(run++), 3, then, 3, now), whole) << then << "then, " << now << "now";
  }
}

TEST_F(DividedStateTest, GoesOnWithAnotherNumberOfWorkers) {
  for (const int workers : {1, 2, 4}) {
    const std::string name = std::to_string(workers);
    const uint64_t whole = InTwoParts("whole" + name, 3, kWhole, workers, kWhole);
    EXPECT_EQ(InTwoParts("divided" + name, 3, kBoth, workers, kBoth), whole) << workers;
    EXPECT_EQ(InTwoParts("no-more" + name, 3, kState, workers, kWhole), whole) << workers;
  }
}

// Momenta, too: what is saved when the others have taken over is what was saved before.
TEST_F(DividedStateTest, IsThatOfBeforeWithAnotherNumberOfWorkers) {
  const auto state = [&](int workers) {
    const CheckpointFolder folder(CheckpointPath(folder_ / "run"), 0, workers, 1);
    const SafetensorsReader reader(folder.File(folder.NewestSound(1 << 20).value().step));
    std::map<std::string, std::vector<std::byte>> values;
    for (const std::string& name : reader.Names()) {
      const auto data = reader.Tensor(name).data;
      if (name.starts_with("optimizer")) values[name].assign(data.begin(), data.end());
    }
    return values;
  };
  Train("run", 3, kWhole, true, false);
  const auto before = state(3);
  EXPECT_FALSE(before.empty());
  Train("run", 2, kWhole, true, true);
  EXPECT_EQ(state(2), before);
}

// What each worker's file holds of the optimiser's state is its part.
TEST_F(DividedStateTest, CheckpointsHoldEachWorkersPart) {
  const auto bytes = [&](const std::string& run, const std::string& divide) {
    Train(run, 3, divide, true, false);
    std::vector<size_t> of_ranks;
    for (int r = 0; r < 3; ++r) {
      size_t sum = 0;
      for (const auto& entry : std::filesystem::directory_iterator(CheckpointPath(folder_ / run))) {
        if (entry.path().filename().string().find(".rank-" + std::to_string(r)) == std::string::npos) continue;
        const SafetensorsReader reader(entry.path());
        sum = 0;  // of any of them
        for (const std::string& name : reader.Names()) {
          if (name.starts_with("optimizer")) sum += reader.Tensor(name).data.size();
        }
      }
      of_ranks.push_back(sum);
    }
    return of_ranks;
  };
  const std::vector<size_t> whole = bytes("whole", kWhole), divided = bytes("divided", kBoth);
  EXPECT_EQ(whole[1], 0u) << "what is common stands in rank 0's file";
  for (const size_t part : divided) EXPECT_LT(part, whole[0] * 2 / 3);
  EXPECT_GE(divided[0] + divided[1] + divided[2], whole[0] * 9 / 10);
}

TEST_F(DividedStateTest, ACheckpointWithoutAllPartsIsNone) {
  Train("run", 3, kBoth, true, false);
  for (const auto& entry : std::filesystem::directory_iterator(CheckpointPath(folder_ / "run"))) {
    if (entry.path().filename().string().find(".rank-2") != std::string::npos) std::filesystem::remove(entry.path());
  }
  // Without a whole checkpoint a run of other workers begins anew, as with any method.
  const uint64_t anew = Train("run", 2, kBoth, false, true);
  EXPECT_EQ(anew, Train("again", 2, kBoth, false, false));
}

}  // namespace
}  // namespace antiphon::train
