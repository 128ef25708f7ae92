// Adaptation to speech that is mixed into the old: what is shown of the run is the run.
#include <gtest/gtest.h>

#include "nn/model.h"
#include "temporary_folder.h"
#include "train/adaptation.h"
#include "train/random_streams.h"
#include "train/synthetic_task.h"

namespace antiphon::train {
namespace {

TEST(MixedAdaptation, ShowsTheOrderThatItTrainedIn) {
  constexpr int kEpochs = 2, kParts = 20;
  const testing::TemporaryFolder folder;
  const auto old = MakeSyntheticStore(folder / "old");
  SyntheticData few;
  few.utterances_per_speaker = 3;
  few.noise = 0.9;
  const auto fresh = MakeSyntheticStore(folder / "new", few);
  TrainHere(SmallTask(old, folder / "run"), SmallOptions());
  const auto model = std::make_shared<const nn::Model>(nn::Model::Load(ModelFile(folder / "run")));
  AdaptationOptions options;
  options.train.data.minibatch = 64;
  options.train.schedule.epochs = kEpochs;
  const AdaptationResult result = AdaptationRun(options, model, {fresh, nullptr, old, ""}, 1)
                                      .Adapt("mix", Config::Parse("repeat = 2\nschedule = 'uniform'", "mix"),
                                             folder / "out", Config::Parse("type = 'sgd'", "optimizer"));

  const auto mixed = std::make_shared<const data::FrameStore>(folder / "out" / "train-store");
  data::Mixing mixing;
  mixing.repeat = 2;
  mixing.epochs = kEpochs;
  for (size_t u = 0; u < mixed->utterances().size(); ++u) {
    if (mixed->utterances()[u].utt_id.starts_with("new-")) mixing.utterances.push_back(u);
  }
  data::MinibatchOptions data = options.train.data;
  data.left_context = data.right_context = 1;
  const data::MinibatchPool trained(mixed, data, SeedOf(1, RandomStream::kData), 1, {}, {}, {}, mixing);
  ASSERT_EQ(result.schedule.size(), size_t{kEpochs * kParts});
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const std::vector<double> shares = trained.MixedShares(epoch, kParts);
    for (size_t part = 0; part < shares.size(); ++part) {
      EXPECT_EQ(result.schedule[static_cast<size_t>(epoch) * kParts + part].second, shares[part]) << epoch << part;
    }
  }
}

}  // namespace
}  // namespace antiphon::train
