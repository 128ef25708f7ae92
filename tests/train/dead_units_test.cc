#include "train/dead_units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "base/compute_threads.h"
#include "base/log.h"
#include "nn/workspace.h"
#include "synthetic_task.h"
#include "temporary_folder.h"

namespace antiphon::train {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kHidden =
    "[[layer]]\ntype = 'affine'\nname = 'h'\ndim = 20\n[[layer]]\ntype = 'relu'\n[[layer]]\ntype = 'batch-norm'\n"
    "name = 'hidden'\n[[layer]]\ntype = 'affine'\n";

// With so many relus that no positive input can wake.
nn::Network NetworkWithDead(int units) {
  nn::Network network(Config::Parse(kHidden, "network"), 4, 3, 1);
  nn::Parameter& weight = *network.parameters()[0];
  nn::Parameter& bias = *network.parameters()[1];
  for (int64_t unit = 0; unit < 20; ++unit) {
    for (float& w : weight.value.Row(unit)) w = unit < units ? -1.0f : 1.0f;
    bias.value(0, unit) = unit < units ? -1.0f : 0.0f;
  }
  network.MarkChanged();
  Matrix x(100, 4);
  Rng rng(1);
  for (int64_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(rng.Uniform());
  nn::Workspace workspace;
  bool given = false;
  network.RecomputeStatistics(
      {}, [&] { return std::exchange(given, true) ? nn::NetworkInput() : nn::NetworkInput{x}; }, workspace);
  return network;
}

TEST(DeadUnits, AreToldOfWhereMoreThanATenthOfALayerIsDead) {
  EXPECT_THAT(DescribeDeadUnits(NetworkWithDead(0)), IsEmpty());
  EXPECT_THAT(DescribeDeadUnits(NetworkWithDead(2)), IsEmpty());
  EXPECT_THAT(DescribeDeadUnits(NetworkWithDead(3)),
              ElementsAre("layer hidden: 3 of 20 units are dead (their outputs do not vary); less weight decay or a "
                          "lower rate keeps them alive"));
  EXPECT_EQ(DescribeDeadUnits(NetworkWithDead(20)).size(), 1u) << "also where no other unit is there to compare with";
}

// What a run of two workers says: that its layer is dead from the start on, once an epoch.
TEST(DeadUnits, AreLoggedByOneWorkerAfterEachEpoch) {
  const testing::TemporaryFolder folder;
  const auto store = MakeSyntheticStore(folder / "store");
  TrainOptions options = SmallOptions();
  options.schedule.epochs = 2;
  const auto times_said = [&](const std::string& bias) {
    TrainingTask task = SmallTask(store, folder / ("run" + bias));
    std::string network = kHidden;
    task.network = Config::Parse(network.insert(network.find("dim"), "bias-init = " + bias + "\n"), "network");
    task.parallel = Config::Parse("method = 'ssgd'\n", "parallel");
    std::ostringstream text;
    log::SetLogger(std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
    comm::RunRanks(2, [&](comm::Communicator& comm) {
      SetComputeThreads(1);
      Trainer(task, options, comm).Run(false);
    });
    log::SetLogger(std::make_shared<spdlog::logger>("silent"));
    int times = 0;
    const std::string said = text.str(), line = "layer hidden: 20 of 20 units are dead";
    for (size_t at = said.find(line); at != std::string::npos; at = said.find(line, at + 1)) ++times;
    return times;
  };
  EXPECT_EQ(times_said("-1000.0"), 2);
  EXPECT_EQ(times_said("0.0"), 0);
}

}  // namespace
}  // namespace antiphon::train
