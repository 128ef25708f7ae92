// A new layer is one file (toy_layer.cc): a network with it is trained, kept, adapted and run like any other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapt/layer_groups.h"
#include "infer/nnet_scorer.h"
#include "nn/model.h"
#include "temporary_folder.h"
#include "train/component_options.h"
#include "train/synthetic_task.h"

namespace antiphon::train {
namespace {

class ToyLayer : public ::testing::Test {
 protected:
  ToyLayer() {
    task_ = SmallTask(store_, folder_ / "run");
    task_.network = Config::Parse(
        "[[layer]]\ntype = \"affine\"\ndim = 24\n[[layer]]\ntype = \"relu\"\n[[layer]]\ntype = \"toy\"\n"
        "[[layer]]\ntype = \"affine\"\n",
        "network");
  }

  const testing::TemporaryFolder folder_;
  std::shared_ptr<const data::FrameStore> store_ = MakeSyntheticStore(folder_ / "store");
  TrainingTask task_;
};

TEST_F(ToyLayer, TrainsAndIsSavedAndLoaded) {
  const TrainingSummary summary = TrainHere(task_, SmallOptions());
  EXPECT_GT(summary.held_out_accuracy, 0.6);
  nn::Model model = nn::Model::Load(ModelFile(folder_ / "run"));
  EXPECT_EQ(model.network.Hash(), summary.model_hash);
  ASSERT_EQ(model.network.layer_type(3), "toy");  // behind the input's scaling, an affine layer and its activation
  const nn::Parameter& factors = *model.network.layer(3).parameters()[0];
  float moved = 0;
  for (const float a : factors.value.Row(0)) moved = std::max(moved, std::abs(a - 1));
  EXPECT_GT(moved, 0.01f) << "it learned";
}

TEST_F(ToyLayer, ScoresAsItsNetworkDoes) {
  TrainHere(task_, SmallOptions());
  nn::Model model = nn::Model::Load(ModelFile(folder_ / "run"));
  const nn::Network network = model.network.Clone();
  const int width = model.left_context + 1 + model.right_context;
  Matrix frames(5, model.feature_dim);
  Rng rng(3);
  for (int64_t i = 0; i < frames.size(); ++i) frames.data()[i] = static_cast<float>(rng.Normal());
  Matrix windows(1, int64_t{width} * model.feature_dim);  // of the frame in the middle
  std::copy_n(frames.Row(2 - model.left_context).data(), windows.size(), windows.data());
  nn::Workspace ws;
  const Matrix expected(network.Forward({}, windows, ws));
  infer::NnetScorerOptions options;
  options.log_softmax = false;
  const auto loaded = std::make_shared<const infer::NnetModel>(std::move(model), options);
  infer::NnetScorer scorer(loaded, std::move(frames));
  for (int pdf_id = 0; pdf_id < expected.cols(); ++pdf_id) {
    const float prior = loaded->scaled_priors()[static_cast<size_t>(pdf_id)];
    EXPECT_NEAR(scorer.LogLikelihood(2, pdf_id), expected(0, pdf_id) - prior, 1e-3) << pdf_id;
  }
}

TEST_F(ToyLayer, IsKnownToDocumentationAndToThoseWhoRewriteNetworks) {
  EXPECT_THAT(FamilyNamed("layer").names, ::testing::Contains("toy"));
  EXPECT_TRUE(DescribeComponent(FamilyNamed("layer"), "toy").empty());
  const nn::Network network(task_.network, 6, 8, 1);
  // Its traits make it the end of a hidden layer, which speakers may have contributions of their own for.
  EXPECT_EQ(adapt::HiddenOutputs(nn::TakeApart(network), {}, "layers"), (std::vector<size_t>{1, 2}));
}

}  // namespace
}  // namespace antiphon::train
