// A strategy and a layer that somebody added, one file each (tests/conformance/toy_strategy.cc, toy_layer.cc), as the
// commands know them: simulated, proposed, trained and compared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "command.h"
#include "nn/model.h"
#include "temporary_folder.h"
#include "train/synthetic_task.h"

namespace antiphon::app {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::HasSubstr;

json Answer(const std::string& command, const std::string& toml) {
  std::ostringstream printed;
  return json::parse(RunCommand(command, Config::Parse(toml, command), printed));
}

TEST(AddedComponents, AStrategyIsSimulated) {
  const json result = Answer("simulate", "methods = ['toy', 'averaging']\nworkers = [4]\nlayers = '440,512,1000'\n");
  const json& runs = result.at("runs");
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].at("method"), "toy");
  EXPECT_EQ(runs[0].at("frames_per_second"), runs[1].at("frames_per_second")) << "it exchanges as averaging does";
}

TEST(AddedComponents, AStrategyIsProposed) {
  EXPECT_THAT(Answer("plan", "layers = '440,2x1024,4000'\n").dump(), HasSubstr("\"toy\""));
}

TEST(AddedComponents, AStrategyAndALayerAreCompared) {
  const testing::TemporaryFolder folder;
  train::MakeSyntheticStore(folder / "store");
  WriteFileAtomically(folder / "train.toml", fmt::format(R"(
store = "{}"
precision = "fp32"
[data]
minibatch = 64
left-context = 1
right-context = 1
[schedule]
epochs = 2
learning-rate = 0.5
[held-out]
fraction = 0.2
[optimizer]
type = "sgd"
[network]
layer = [{{type = "affine", dim = 24}}, {{type = "relu"}}, {{type = "toy"}}, {{type = "affine"}}]
)",
                                                         (folder / "store").string()));
  const json result = Answer("compare", fmt::format("training = '{}'\nout = '{}'\nmethods = ['serial', 'toy']\n"
                                                    "workers = [2]\nseeds = 1\nthreads = 1\n",
                                                    (folder / "train.toml").string(), (folder / "compare").string()));
  EXPECT_THAT(result.dump(), HasSubstr("\"toy\""));
  const nn::Model model = nn::Model::Load(train::ModelFile(folder / "compare/toy-2-seed1"));
  EXPECT_EQ(model.network.layer_type(3), "toy");
  EXPECT_THAT(model.descriptions.at("trained_by"), HasSubstr("method toy"));
  EXPECT_GT(std::stod(model.descriptions.at("frame_accuracy")), 0.6);
}

}  // namespace
}  // namespace antiphon::app
