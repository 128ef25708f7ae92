#include "nn/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "math/safetensors.h"
#include "oracle.h"
#include "temporary_folder.h"

namespace antiphon::nn {
namespace {

using ::testing::HasSubstr;

constexpr char kNetwork[] = R"(
layer = [{type = "normalize"}, {type = "affine", dim = 12, learning-rate-factor = 0.5}, {type = "relu"},
         {type = "batch-norm", affine = true}, {type = "dropout"}, {type = "affine"}]
)";

Model MakeModel() {
  Model model;
  model.network = Network(Config::Parse(kNetwork, "net.toml"), 15, 4, 7);
  model.network.buffers()[0]->value(0, 3) = 0.25f;
  model.feature_config = "kind = \"fbank\"\n";
  model.feature_dim = 5;
  model.left_context = 1;
  model.right_context = 1;
  model.hmm_json = "{\"phones\": [\"ä\"]}";
  model.speaker_model.assign(11, std::byte{3});
  model.log_priors = {-1, -2, -3, -INFINITY};
  model.descriptions = {{"seed", "7"}, {"trained_by", "test"}};
  return model;
}

class ModelFile : public ::testing::Test {
 protected:
  std::string LoadError() {
    try {
      Model::Load(path_);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  }
  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "final.safetensors";
};

TEST_F(ModelFile, ComesBackBitForBit) {
  const Model model = MakeModel();
  model.Save(path_);
  const Model again = Model::Load(path_);
  EXPECT_EQ(again.network.Hash(), model.network.Hash());
  EXPECT_EQ(again.network.ToToml(), model.network.ToToml());
  EXPECT_EQ(again.feature_config, model.feature_config);
  EXPECT_EQ(again.left_context, 1);
  EXPECT_EQ(again.hmm_json, model.hmm_json);
  EXPECT_EQ(again.speaker_model, model.speaker_model);
  EXPECT_EQ(again.log_priors, model.log_priors);
  EXPECT_EQ(again.descriptions, model.descriptions);
  EXPECT_EQ(again.network.parameters()[0]->learning_rate_factor, 0.5f);
  again.Save(folder_ / "again.safetensors");
  EXPECT_EQ(ReadFile(folder_ / "again.safetensors"), ReadFile(path_));
}

// Layers in few bits, behind masks, and both inside another, as ranks save them that hold a model together.
TEST_F(ModelFile, FromAnOutlineAndItsValuesIsThatOfTheWhole) {
  constexpr char kRounded[] = R"(
layer = [{type = "quantized-affine", dim = 16}, {type = "relu"},
         {type = "quantized-affine", dim = 12, weight-bits = 4, input-bits = 0}, {type = "binary-affine", dim = 16},
         {type = "residual", layers = [{type = "sparse-affine", dim = 16, block-rows = 2, block-cols = 4}]},
         {type = "sparse-affine", dim = 8, weight-bits = 8}, {type = "affine"}]
)";
  Model whole, outline;
  whole.network = Network(Config::Parse(kRounded, "net.toml"), 15, 4, 7);
  for (Parameter* p : whole.network.buffers()) {
    if (!p->name.ends_with(".mask")) continue;
    for (int64_t r = 0; r < p->value.rows(); ++r) p->value(r, r % p->value.cols()) = 0;
  }
  whole.network.MarkChanged();
  whole.Save(path_);
  std::map<std::string, const Parameter*> parameters;
  for (const auto all : {whole.network.parameters(), whole.network.buffers()}) {
    for (const Parameter* p : all) parameters[p->name] = p;
  }
  outline.network = Network(Config::Parse(whole.network.ToToml(), "outline"), 15, 4, 0, InitialValues::kOutline);
  outline.network.MarkChanged();
  std::vector<std::string> asked, expected;
  outline.Save(folder_ / "divided.safetensors", [&](const Parameter& p, const auto& take) {
    asked.push_back(p.name);
    const ConstMatrixView value = parameters.at(p.name)->value;
    for (int64_t r = 0; r < value.rows(); ++r) take(value.Row(r));
  });
  EXPECT_EQ(ReadFile(folder_ / "divided.safetensors"), ReadFile(path_));
  EXPECT_EQ(Model::Load(folder_ / "divided.safetensors").network.Hash(), Model::Load(path_).network.Hash());
  for (const Parameter* p : SavedOrder(outline.network)) expected.push_back(p->name);
  EXPECT_EQ(asked, expected);
}

TEST_F(ModelFile, RefusesWhatDoesNotFitTogether) {
  Model model = MakeModel();
  model.left_context = 2;
  EXPECT_THROW(model.Save(path_), InputError);
  model = MakeModel();
  model.log_priors.pop_back();
  EXPECT_THROW(model.Save(path_), InputError);
  model = MakeModel();
  model.log_priors[0] = 0.5f;
  EXPECT_THROW(model.Save(path_), InputError);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(ModelFile, IsRefusedWhenCutOrChanged) {
  MakeModel().Save(path_);
  const std::string whole = ReadFile(path_);
  for (const size_t n : {size_t{0}, size_t{100}, whole.size() / 2, whole.size() - 1}) {
    WriteFileAtomically(path_, whole.substr(0, n));
    EXPECT_THAT(LoadError(), HasSubstr("final.safetensors")) << n;
  }
  for (size_t i = 8; i < whole.size(); i += 101) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    WriteFileAtomically(path_, changed);
    EXPECT_NE(LoadError(), "") << i;
  }
}

TEST_F(ModelFile, WithValuesThatAreNoNumbersIsRefusedByTensor) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Model model = MakeModel();
    model.network.parameters()[0]->value(0, 1) = bad;
    model.Save(path_);
    const std::string error = LoadError();
    EXPECT_THAT(error, HasSubstr("final.safetensors"));
    EXPECT_THAT(error, HasSubstr(model.network.parameters()[0]->name));
    EXPECT_THAT(error, HasSubstr("not finite at 1"));
  }
}

TEST_F(ModelFile, OfAnotherKindIsNamedAsSuch) {
  SafetensorsWriter writer;
  writer.Add("a", Matrix(1, 1));
  writer.Write(path_);
  EXPECT_THAT(LoadError(), HasSubstr("no model of Antiphon"));
}

TEST_F(ModelFile, WithTensorsOfAnotherShapeIsRefused) {
  SafetensorsWriter writer;
  writer.SetMetadata("format", "antiphon-model");
  writer.SetMetadata("version", "1");
  writer.SetMetadata("network", "[[layer]]\ntype = \"affine\"\ndim = 3\nname = \"a\"\n");
  writer.SetMetadata("in_dim", "2");
  writer.SetMetadata("out_dim", "3");
  writer.Add("a.weight", Matrix(2, 3));
  writer.Add("a.bias", Matrix(1, 3));
  writer.Write(path_);
  EXPECT_THAT(LoadError(), HasSubstr("tensor 'a.weight' has shape [2, 3], expected [3, 2]"));
}

TEST_F(ModelFile, IsReadByPython) {
  const auto python = OraclePython("safetensors");
  if (!python) GTEST_SKIP() << "no Python with safetensors";
  MakeModel().Save(path_);
  const auto output = RunPython(*python,
                                "import sys\n"
                                "from safetensors import safe_open\n"
                                "with safe_open(sys.argv[1], 'np') as f:\n"
                                "  print(f.get_tensor('affine1.weight').shape, f.metadata()['description.seed'])\n",
                                "'" + path_.string() + "'");
  ASSERT_TRUE(output);
  EXPECT_EQ(*output, "(12, 15) 7\n");
}

}  // namespace
}  // namespace antiphon::nn
