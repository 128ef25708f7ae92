// The public headers alone, as a program of somebody else would use them; the library is only used to make inputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "antiphon/model.h"
#include "antiphon/recognizer.h"
#include "antiphon/trainer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "data/frame_store.h"
#include "temporary_folder.h"

namespace antiphon {
namespace {

using antiphon::testing::TemporaryFolder;
using ::testing::HasSubstr;

constexpr int kDim = 4;
constexpr int kPdfs = 3;

// Frames whose largest of the first three values is the pdf-id.
void WriteStore(const std::filesystem::path& folder) {
  data::FrameStoreWriter writer(folder, kDim, kPdfs);
  Rng rng(5);
  for (int u = 0; u < 12; ++u) {
    Matrix frames(100, kDim);
    std::vector<int32_t> pdfs;
    for (int64_t t = 0; t < frames.rows(); ++t) {
      const auto pdf = static_cast<int32_t>(rng.Below(kPdfs));
      for (float& value : frames.Row(t)) value = static_cast<float>(0.3 * rng.Normal());
      frames(t, pdf) += 2.0f;
      pdfs.push_back(pdf);
    }
    writer.Add("utt" + std::to_string(u), "speaker" + std::to_string(u % 4), frames, pdfs);
  }
  writer.Finish();
}

TEST(PublicApi, TrainsAModelThatClassifies) {
  TemporaryFolder folder;
  WriteStore(folder / "store");
  TrainerSettings settings;
  settings.frame_store = (folder / "store").string();
  settings.run_folder = (folder / "run").string();
  settings.threads = 1;
  settings.config =
      "[data]\nminibatch = 32\nleft-context = 0\nright-context = 0\n"
      "[schedule]\ntype = 'constant'\nepochs = 4\nlearning-rate = 0.5\n[held-out]\nfraction = 0.25\n"
      "[[network.layer]]\ntype = 'affine'\ndim = 8\n[[network.layer]]\ntype = 'sigmoid'\n"
      "[[network.layer]]\ntype = 'affine'\n";
  const TrainingResult result = Trainer(settings).Run();
  EXPECT_GT(result.held_out_accuracy, 0.95);

  const Model model(result.model_file);
  EXPECT_EQ(model.feature_dim(), kDim);
  EXPECT_EQ(model.num_outputs(), kPdfs);
  EXPECT_EQ(model.num_parameters(), kDim * 8 + 8 + 8 * kPdfs + kPdfs);
  EXPECT_THAT(model.network(), HasSubstr("sigmoid"));
  const std::vector<float> features = {0, 0, 2, 0, /**/ 2, 0, 0, 0};
  const std::vector<float> scores = model.LogLikelihoods(features);
  ASSERT_EQ(scores.size(), 2u * kPdfs);
  EXPECT_EQ(std::max_element(scores.begin(), scores.begin() + kPdfs) - scores.begin(), 2);
  EXPECT_EQ(std::max_element(scores.begin() + kPdfs, scores.end()) - scores.begin(), kPdfs);
  EXPECT_TRUE(model.LogLikelihoods({}).empty());
}

// What antiphon train can do, Trainer can: here going on from a model, with a held-out store, and a configuration that
// runs the same again.
TEST(PublicApi, TrainsByAllOptionsOfTheCommand) {
  TemporaryFolder folder;
  WriteStore(folder / "store");
  TrainerSettings settings;
  settings.frame_store = (folder / "store").string();
  settings.run_folder = (folder / "run").string();
  settings.threads = 1;
  const std::string options =
      "[data]\nminibatch = 32\nleft-context = 0\nright-context = 0\n"
      "[schedule]\ntype = 'constant'\nepochs = 2\nlearning-rate = 0.5\n";
  settings.config = options + "[[network.layer]]\ntype = 'affine'\n";
  const TrainingResult first = Trainer(settings).Run();
  settings.run_folder = (folder / "further").string();
  settings.config = "initial-model = '" + first.model_file + "'\nheld-out-store = '" + settings.frame_store +
                    "'\nnote = 'goes on'\n" + options;
  const TrainingResult further = Trainer(settings).Run();
  EXPECT_LT(further.held_out_loss, first.held_out_loss);
  EXPECT_THAT(ReadFile(folder / "further/metrics.jsonl"), HasSubstr("goes on"));
  EXPECT_THAT(ReadFile(folder / "further/config.toml"), HasSubstr("initial-model = '" + first.model_file));
  // What would destroy its input is refused here, too.
  settings.run_folder = (folder / "run").string();
  EXPECT_THROW(Trainer(settings).Run(), std::runtime_error);
  EXPECT_TRUE(std::filesystem::exists(first.model_file));
}

TEST(PublicApi, ErrorsAreStandardExceptionsThatNameTheFile) {
  for (const auto& call : std::vector<std::function<void()>>{
           [] { Model("/nonexistent.safetensors"); }, [] { Recognizer("/nonexistent.safetensors", "/graph"); }}) {
    try {
      call();
      FAIL();
    } catch (const std::runtime_error& e) {
      EXPECT_THAT(e.what(), HasSubstr("/nonexistent.safetensors"));
    }
  }
}

}  // namespace
}  // namespace antiphon
