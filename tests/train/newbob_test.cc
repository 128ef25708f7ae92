// Newbob's refusal of an epoch, as the trainer carries it out.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/compute_threads.h"
#include "math/safetensors.h"
#include "parallel/strategy.h"
#include "temporary_folder.h"
#include "train/synthetic_task.h"

namespace antiphon::train {
namespace {

// Plain training; forgets all that was learned at the end of an epoch when told to.
class ForgetsAtEpochEnd : public parallel::Strategy {
 public:
  using Strategy::Strategy;
  static inline std::atomic<bool> forgets = false;
  static inline std::atomic<int> resets = 0;

  void AfterEpoch() override {
    if (!forgets) return;
    std::ranges::fill(network().values(), 0.0f);
    network().MarkChanged();
  }
  void ResetState() override { ++resets; }
};
REGISTER_COMPONENT(parallel::StrategyRegistry, "test-forgets", [](const Config&, const parallel::Replica& replica) {
  return std::make_unique<ForgetsAtEpochEnd>(replica);
});

class NewbobTest : public ::testing::Test {
 protected:
  using Tensors = std::map<std::string, std::vector<float>>;

  void SetUp() override {
    ResetCancel();
    SetComputeThreads(1);
    ForgetsAtEpochEnd::forgets = false;
    ForgetsAtEpochEnd::resets = 0;
  }
  void TearDown() override { ResetCancel(); }

  void TrainUntil(int epoch, bool resume) {
    TrainingTask task = SmallTask(store_, folder_ / "run");
    task.network = Config::Parse(
        "[[layer]]\ntype = \"affine\"\ndim = 24\n[[layer]]\ntype = \"relu\"\n[[layer]]\ntype = \"affine\"\n", "n");
    task.parallel = Config::Parse("method = \"test-forgets\"\n", "parallel");
    task.pause_after_epochs = epoch;
    TrainOptions options = SmallOptions();
    options.schedule.type = optim::ScheduleType::kNewbob;
    EXPECT_THROW(TrainHere(task, options, resume), Cancelled);
  }
  // Of the newest checkpoint.
  Tensors Saved(const std::string& prefix) const {
    const CheckpointFolder checkpoints(CheckpointPath(folder_ / "run"), 0, 1, 1);
    const SafetensorsReader reader(checkpoints.File(checkpoints.NewestSound(1 << 20).value().step));
    Tensors tensors;
    for (const std::string& name : reader.Names()) {
      if (!name.starts_with(prefix)) continue;
      const Matrix values = reader.ReadMatrix(name);
      tensors[name].assign(values.data(), values.data() + values.size());
    }
    return tensors;
  }
  static bool AllZero(const Tensors& tensors) {
    return std::ranges::all_of(tensors, [](const auto& named) {
      return std::ranges::all_of(named.second, [](float v) { return v == 0.0f; });
    });
  }

  testing::TemporaryFolder folder_;
  std::shared_ptr<const data::FrameStore> store_ = MakeSyntheticStore(folder_ / "store");
};

TEST_F(NewbobTest, ARejectedEpochGoesBackToTheBestModelAndForgetsItsMomentum) {
  TrainUntil(1, false);
  const Tensors best = Saved("network.");
  ASSERT_FALSE(best.empty());
  EXPECT_FALSE(AllZero(best));
  EXPECT_FALSE(AllZero(Saved("optimizer"))) << "an epoch that was accepted keeps its momentum";
  EXPECT_EQ(ForgetsAtEpochEnd::resets, 0);

  ForgetsAtEpochEnd::forgets = true;
  TrainUntil(2, true);
  EXPECT_EQ(Saved("network."), best);
  EXPECT_TRUE(Saved("best.").empty()) << "it is the network itself";
  const Tensors momentum = Saved("optimizer");
  EXPECT_FALSE(momentum.empty());
  EXPECT_TRUE(AllZero(momentum));
  EXPECT_EQ(ForgetsAtEpochEnd::resets, 1);
}

}  // namespace
}  // namespace antiphon::train
