// Every registered method: what it makes loads, scores the same before and after, keeps the output where it says so,
// trains on, and what is nonsense is refused with the model unchanged.
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "compress/network_parts.h"
#include "nn/loss.h"
#include "optim/optimizer.h"
#include "small_model.h"
#include "temporary_folder.h"

namespace antiphon::compress {
namespace {

struct Sample {
  std::vector<std::string> keys;      // to be tried
  std::vector<std::string> nonsense;  // to be refused
};

// A new method adds its line here.
const std::map<std::string, Sample>& Samples() {
  static const std::map<std::string, Sample> samples = {
      {"svd",
       {{"", "energy = 1.0", "size = 0.5", "rank = 8\nlimit = 2.0", "weighted = false\nenergy = 0.4",
         "divergence = 0.05\nlimit = 2.0"},
        {"energy = 1.5", "layers = ['affine9']", "size = 0.2\nlayers = ['relu1']"}}},
      {"prune",
       {{"", "sparsity = 0.0", "sparsity = 0.5\nscope = 'network'\nfirst = true", "block-rows = 4\nblock-cols = 2"},
        {"sparsity = 1.0", "block-rows = 3", "block-rows = 64\nblock-cols = 64", "layers = ['batch-norm1']"}}},
      {"prune-nodes",
       {{"", "share = 0.0", "importance = 'input-norm'\nscope = 'network'",
         "importance = 'entropy'\nfold-mean = false"},
        {"importance = 'size'", "share = 1.0"}}},
      {"quantize",
       {{"", "weight-bits = 4\nrange = 'minmax'", "range = 'kl'\nfirst-inputs = true",
         "input-bits = 0\nskip-last = true"},
        {"weight-bits = 5", "input-bits = 3", "percentile = 1.5"}}},
      {"binarize", {{"", "inputs = true", "layers = ['affine3']"}, {"layers = ['affine7']"}}},
      {"circulant", {{"", "block = 1", "block = 16\nlayers = ['affine3']"}, {"block = 5", "block = 0"}}},
      {"student",
       {{"dim = 8", "layers = 1\ndim = 4\nlow-rank = 3", "width = 0.5", "width = 0.25\nlow-rank = 4"},
        {"layers = 0", "dim = 0", "width = 1.0", "width = 0.5\ndim = 8"}}},
      {"multiframe", {{"", "frames = 1", "frames = 4\nfirst = 'ahead'"}, {"frames = 0", "first = 'left'"}}},
  };
  return samples;
}

// Steps on noise; the loss must go down.
void ExpectTrainsOn(nn::Model& model, const std::string& what) {
  const auto optimizer =
      optim::MakeOptimizer(Config::Parse("type = \"sgd\"\nmomentum = 0.5\n", "optimizer"), model.network);
  const Matrix x = RandomMatrix(64, kInputs, 21);
  std::vector<int32_t> ids;
  for (int32_t n = 0; n < 64 * model.frames_per_forward; ++n) ids.push_back(n * 7 % kPdfs);
  nn::Workspace ws;
  double first = 0;
  double last = 0;
  for (int step = 0; step < 60; ++step) {
    const nn::ExecContext context{.training = true, .step = step, .dropout_factor = 0};
    const MatrixView z = model.network.Forward(context, x, ws);
    last = nn::SoftmaxCrossEntropy(z, {.pdf_ids = ids, .heads = model.frames_per_forward}, z).loss();
    if (step == 0) first = last;
    optimizer->BeginStep(0.05);
    model.network.Backward(context, z, ws, *optimizer);
    optimizer->EndStep();
  }
  EXPECT_LT(last, 0.9 * first) << what;
}

TEST(Methods, AllHaveASampleHere) {
  for (const std::string& name : MethodRegistry::Get().Names()) {
    EXPECT_TRUE(Samples().contains(name)) << "add keys for '" << name << "' to Samples()";
  }
}

TEST(Methods, MakeModelsThatLoadScoreAndTrainOn) {
  const testing::TemporaryFolder folder;
  for (const auto& [name, sample] : Samples()) {
    for (const std::string& keys : sample.keys) {
      const std::string what = name + " {" + keys + "}";
      FixedFrames frames(kInputs);
      nn::Model model = SmallModel();
      const Matrix before = Output(model.network, frames.first());
      const auto method = MethodRegistry::Get().Create(name, Config::Parse(keys, name));
      const Changes changes = method->Apply(model, {&frames, 1});
      EXPECT_FALSE(changes.empty()) << what;
      model.Validate();
      EXPECT_EQ(model.num_pdfs(), kPdfs) << what;
      const Matrix after = Output(model.network, frames.first());
      if (method->keeps_output()) {
        EXPECT_LT(LargestDifference(before, after), 1e-4) << what;
      }
      model.Save(folder / "m.safetensors");
      nn::Model loaded = nn::Model::Load(folder / "m.safetensors");
      EXPECT_EQ(LargestDifference(Output(loaded.network, frames.first()), after), 0) << what;
      EXPECT_EQ(loaded.frames_per_forward, model.frames_per_forward);
      ExpectTrainsOn(loaded, what);
    }
  }
}

TEST(Methods, AreDeterministic) {
  for (const auto& [name, sample] : Samples()) {
    FixedFrames frames(kInputs);
    nn::Model a = SmallModel();
    nn::Model b = SmallModel();
    Apply(name, sample.keys[0], a, &frames);
    Apply(name, sample.keys[0], b, &frames);
    EXPECT_EQ(a.network.Hash(), b.network.Hash()) << name;
  }
}

TEST(Methods, RefuseNonsenseAndLeaveTheModelAlone) {
  for (const auto& [name, sample] : Samples()) {
    for (const std::string& keys : sample.nonsense) {
      FixedFrames frames(kInputs);
      nn::Model model = SmallModel();
      const uint64_t hash = model.network.Hash();
      EXPECT_THROW(Apply(name, keys, model, &frames), Error) << name << " {" << keys << "}";
      EXPECT_EQ(model.network.Hash(), hash) << name;
    }
    EXPECT_THROW(MethodRegistry::Get().Create(name, Config::Parse("no-such-key = 1", name)), UsageError) << name;
  }
}

TEST(Methods, SayWhatTheyNeedWhenThereAreNoFrames) {
  for (const auto& [name, sample] : Samples()) {
    for (const std::string& keys : sample.keys) {
      const auto method = MethodRegistry::Get().Create(name, Config::Parse(keys, name));
      nn::Model model = SmallModel();
      if (method->needs_frames()) {
        EXPECT_THROW(method->Apply(model, {}), UsageError) << name;
      } else {
        EXPECT_NO_THROW(method->Apply(model, {})) << name;
      }
    }
  }
}

TEST(Methods, FollowOneAnother) {
  FixedFrames frames(kInputs);
  nn::Model model = SmallModel();
  Apply("prune-nodes", "share = 0.25", model, &frames);
  Apply("svd", "size = 0.7", model, &frames);
  Apply("prune", "sparsity = 0.5\nfirst = true", model, &frames);
  Apply("quantize", "", model, &frames);
  const testing::TemporaryFolder folder;
  model.Save(folder / "m.safetensors");
  nn::Model loaded = nn::Model::Load(folder / "m.safetensors");
  EXPECT_EQ(LargestDifference(Output(loaded.network, frames.first()), Output(model.network, frames.first())), 0);
  EXPECT_LT(SizeOf(loaded.network).bytes, SizeOf(SmallModel().network).bytes / 3);
  ExpectTrainsOn(loaded, "all");
}

}  // namespace
}  // namespace antiphon::compress
