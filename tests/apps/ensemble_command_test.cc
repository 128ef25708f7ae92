// antiphon ensemble: files in, one file out, and none of them lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "command.h"
#include "nn/model.h"
#include "temporary_folder.h"

namespace antiphon::app {
namespace {

using ::testing::HasSubstr;

class EnsembleCommand : public ::testing::Test {
 protected:
  EnsembleCommand() {
    for (const uint64_t seed : {1, 2}) {
      nn::Model model;
      model.network = nn::Network(Config::Parse("layer = [{type = 'affine', dim = 3}]", "network"), 4, 3, seed);
      model.feature_dim = 4;
      model.Save(File(seed == 1 ? "a" : "b"));
    }
  }
  std::filesystem::path File(const std::string& name) const { return folder_ / (name + ".safetensors"); }
  std::string Run(const std::string& out) {
    Config config;
    config.Set("models", "['" + File("a").string() + "', '" + File("b").string() + "']");
    config.Set("weights", "[1.0, 3.0]");
    config.Set("out", "'" + out + "'");
    RunCommand("ensemble", config, printed_);
    return printed_.str();
  }

  const testing::TemporaryFolder folder_;
  std::ostringstream printed_;
};

TEST_F(EnsembleCommand, WritesOneModelOfSeveral) {
  EXPECT_THAT(Run(File("both").string()), HasSubstr("2 networks, 30 parameters"));
  const nn::Model both = nn::Model::Load(File("both"));
  const nn::Model a = nn::Model::Load(File("a")), b = nn::Model::Load(File("b"));
  EXPECT_EQ(both.network.layer_type(0), "ensemble");
  EXPECT_EQ(both.network.num_parameters(), a.network.num_parameters() + b.network.num_parameters());
}

TEST_F(EnsembleCommand, TakesEachModelOnce) {
  std::filesystem::create_symlink(File("a"), File("again"));
  Config config;
  config.Set("models", "['" + File("a").string() + "', '" + File("again").string() + "']");
  config.Set("out", "'" + File("both").string() + "'");
  EXPECT_THROW(RunCommand("ensemble", config, printed_), UsageError);
}

TEST_F(EnsembleCommand, WritesOverNoneOfItsModels) {
  const std::string before = ReadFile(File("b"));
  EXPECT_THROW(Run(File("b").string()), UsageError);
  EXPECT_EQ(ReadFile(File("b")), before);
}

}  // namespace
}  // namespace antiphon::app
