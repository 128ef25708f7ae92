// Adapting an ensemble: what holds for chains inside a layer.
#include <gtest/gtest.h>

#include <algorithm>

#include "nn/model.h"
#include "temporary_folder.h"
#include "train/adaptation.h"
#include "train/synthetic_task.h"

namespace antiphon::train {
namespace {

TEST(EnsembleAdaptation, OldStatisticsStayInTheMembers) {
  const testing::TemporaryFolder folder;
  const auto store = MakeSyntheticStore(folder / "store");
  TrainingTask task = SmallTask(store, folder / "ensemble");
  task.network = Config::Parse(
      "layer = [{type='ensemble', members=[{layers=[{type='affine', dim=16}, {type='relu'}, {type='batch-norm'}, "
      "{type='affine'}]}, {layers=[{type='affine', dim=12}, {type='batch-norm'}, {type='sigmoid'}, {type='affine'}], "
      "weight=2.0}]}]",
      "network");
  TrainHere(task, SmallOptions());
  const auto model = std::make_shared<const nn::Model>(nn::Model::Load(ModelFile(folder / "ensemble")));
  AdaptationOptions options;
  options.train.data.minibatch = 64;
  options.train.schedule.epochs = 1;
  const Config sgd = Config::Parse("type = 'sgd'", "optimizer");
  for (const std::string statistics : {"old", "new"}) {
    const AdaptationRun run(options, model, {store, nullptr, store, ""}, 1);
    run.Adapt("transfer", Config::Parse("statistics = '" + statistics + "'", "transfer"), folder / statistics, sgd);
    const nn::Model adapted = nn::Model::Load(folder / statistics / "adapted.safetensors");
    EXPECT_EQ(adapted.network.ToToml(), model->network.ToToml());
    const auto before = model->network.buffers(), after = adapted.network.buffers();
    ASSERT_EQ(before.size(), after.size());
    int compared = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      if (!before[i]->name.ends_with("statistics")) continue;
      ++compared;
      const float* const from = before[i]->value.data();
      const bool same = std::equal(from, from + before[i]->value.size(), after[i]->value.data());
      EXPECT_EQ(same, statistics == "old") << before[i]->name;
    }
    EXPECT_EQ(compared, 2);
  }
}

}  // namespace
}  // namespace antiphon::train
