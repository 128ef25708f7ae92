// Runs of every registered method that other numbers of workers go on with, a single one among them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <span>

#include "base/cancel.h"
#include "base/compute_threads.h"
#include "math/finite.h"
#include "nn/model.h"
#include "parallel/strategy.h"
#include "temporary_folder.h"
#include "train/synthetic_task.h"

namespace antiphon::train {
namespace {

// A method and its keys, and what of it is not the same as for others.
struct ChangedMethod {
  std::string keys;
  bool whole_epochs = false;  // other numbers of workers go on at the ends of epochs alone
};
void PrintTo(const ChangedMethod& method, std::ostream* to) { *to << method.keys; }

std::vector<ChangedMethod> ChangedMethods() {
  std::vector<ChangedMethod> methods;
  for (const std::string& name : parallel::StrategyRegistry::Get().Names()) {
    if (name == "serial" || name.starts_with("test-")) continue;
    methods.push_back({.keys = "method = \"" + name + "\"\n", .whole_epochs = name == "pipeline" || name == "admm"});
  }
  for (const char* keys :
       {"method = \"bmuf\"\nwarm-start-epochs = 2\n", "method = \"asgd\"\nwarm-start-epochs = 2\n",
        "method = \"host-master\"\nwarm-start-epochs = 1\n", "method = \"ssgd\"\ncodec = {type = \"one-bit\"}\n",
        "method = \"ssgd\"\naccumulate = 2\n", "method = \"asgd\"\npush-every = 1\nmax-staleness = -1\n"}) {
    methods.push_back({.keys = keys});
  }
  return methods;
}

class ChangedWorkersTest : public ::testing::TestWithParam<ChangedMethod> {
 protected:
  void SetUp() override {
    ResetCancel();
    store_ = MakeSyntheticStore(folder_ / "store", {.speakers = 3, .utterances_per_speaker = 5});
  }
  void TearDown() override { ResetCancel(); }

  // Summaries of zeros if it is stopped.
  enum class Stop { kNever, kAtOnce, kAfterEpoch };
  std::vector<TrainingSummary> Train(const std::string& run, int workers, Stop stop, bool resume) {
    TrainingTask task = SmallTask(store_, folder_ / run);
    task.network = Config::Parse(
        "[[layer]]\ntype = \"affine\"\ndim = 16\n[[layer]]\ntype = \"relu\"\n[[layer]]\ntype = \"affine\"\n"
        "dim = 16\n[[layer]]\ntype = \"relu\"\n[[layer]]\ntype = \"affine\"\n",
        "network");
    task.parallel = Config::Parse(GetParam().keys, "parallel");
    task.pause_after_epochs = stop == Stop::kAfterEpoch ? 1 : 0;
    TrainOptions options = SmallOptions();
    options.checkpoint.steps = 4;
    if (stop == Stop::kAtOnce) RequestCancel();
    std::vector<TrainingSummary> summaries(static_cast<size_t>(workers));
    try {
      comm::RunRanks(workers, [&](comm::Communicator& comm) {
        SetComputeThreads(1);
        comm.set_deadline_seconds(60);
        summaries[static_cast<size_t>(comm.rank())] = Trainer(task, options, comm).Run(resume);
      });
      EXPECT_EQ(stop, Stop::kNever);
    } catch (const Cancelled&) {
      EXPECT_NE(stop, Stop::kNever);
    }
    ResetCancel();
    return summaries;
  }

  // Stops before each change; the end is trained by the last number.
  std::vector<TrainingSummary> InTurn(const std::string& run, const std::vector<int>& workers, Stop stop) {
    for (size_t i = 0; i + 1 < workers.size(); ++i) Train(run, workers[i], stop, i > 0);
    return Train(run, workers.back(), Stop::kNever, true);
  }

  testing::TemporaryFolder folder_;
  std::shared_ptr<const data::FrameStore> store_;
};
INSTANTIATE_TEST_SUITE_P(Registered, ChangedWorkersTest, ::testing::ValuesIn(ChangedMethods()), [](const auto& test) {
  std::string name = std::to_string(test.index) + "_" + test.param.keys.substr(10);
  name.resize(name.find('"'));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(ChangedWorkersTest, GoOnWithEveryFrame) {
  const int64_t frames = Train("whole", 2, Stop::kNever, false)[0].frames;
  for (const Stop stop : {Stop::kAtOnce, Stop::kAfterEpoch}) {
    if (stop == (GetParam().whole_epochs ? Stop::kAtOnce : Stop::kAfterEpoch)) continue;
    for (const std::vector<int>& workers : {std::vector<int>{1, 2}, {2, 1, 2}}) {
      std::string run = stop == Stop::kAtOnce ? "at-once" : "after-epoch";
      for (const int n : workers) run += "-" + std::to_string(n);
      SCOPED_TRACE(run);
      const auto summaries = InTurn(run, workers, stop);
      for (const TrainingSummary& summary : summaries) EXPECT_EQ(summary.model_hash, summaries[0].model_hash);
      EXPECT_EQ(summaries[0].frames, frames);
      EXPECT_GT(summaries[0].held_out_accuracy, 0.2);
    }
  }
}

// Replicas that are left out until the next exchange, in the middle of a block that ends with the number of workers.
class LeftOutTest : public ChangedWorkersTest {
 protected:
  // As a rank saves a model that is not finite.
  void SpoilReplica(const std::string& run, int64_t step, int rank) {
    const std::filesystem::path file = CheckpointFolder(CheckpointPath(folder_ / run), rank, 3, 2).File(step);
    const SafetensorsReader reader(file);
    SafetensorsWriter writer;
    for (const auto& [key, value] : reader.metadata()) {
      if (key != "antiphon_checksum") writer.SetMetadata(key, value);
    }
    const std::vector<float> nans(10000, NAN);
    std::vector<int64_t> counts = reader.ReadInts("strategy.counts");
    ASSERT_GT(counts.at(1), 0) << "in the middle of a block";
    counts.at(2) = 0;
    for (const std::string& name : reader.Names()) {
      const TensorView& tensor = reader.Tensor(name);
      std::span<const std::byte> data = tensor.data;
      const bool own = name.starts_with("network.") || name.starts_with("optimizer");
      if (own && tensor.type == TensorType::kF32) data = std::as_bytes(std::span(nans)).first(data.size());
      if (name == "strategy.counts") data = std::as_bytes(std::span(counts));
      writer.Add(name, tensor.type, tensor.shape, data);
    }
    writer.Write(file);
  }
  bool IsFinite(const std::string& run) {
    return AllFinite(nn::Model::Load(ModelFile(folder_ / run)).network.values());
  }
};
INSTANTIATE_TEST_SUITE_P(Periodic, LeftOutTest,
                         ::testing::Values(ChangedMethod{.keys = "method = \"averaging\"\nsync-period = 12\n"},
                                           ChangedMethod{.keys = "method = \"bmuf\"\nsync-period = 12\n"}),
                         [](const auto& test) { return test.index == 0 ? "averaging" : "bmuf"; });

TEST_P(LeftOutTest, AreNoPartOfTheMean) {
  for (const int spoilt : {0, 1}) {
    const std::string run = "run-" + std::to_string(spoilt);
    Train(run, 3, Stop::kAtOnce, false);
    SpoilReplica(run, 4, spoilt);
    EXPECT_GT(Train(run, 2, Stop::kNever, true)[0].held_out_accuracy, 0.2) << spoilt;
    EXPECT_TRUE(IsFinite(run)) << spoilt;
  }
}

TEST_P(LeftOutTest, AllOfThemLeaveAnOlderCheckpoint) {
  Train("run", 3, Stop::kAtOnce, false);
  for (int rank = 0; rank < 3; ++rank) SpoilReplica("run", 4, rank);
  EXPECT_GT(Train("run", 2, Stop::kNever, true)[0].held_out_accuracy, 0.2);
  EXPECT_TRUE(IsFinite("run"));
}

}  // namespace
}  // namespace antiphon::train
