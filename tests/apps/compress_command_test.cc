// antiphon compress as a user runs it: methods side by side, the search under a budget, runs that go on where they were
// broken off.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "command.h"
#include "temporary_folder.h"
#include "train/synthetic_task.h"

namespace antiphon::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Compress : public ::testing::Test {
 protected:
  Compress() {
    train::TrainingTask task = train::SmallTask(train::MakeSyntheticStore(folder_ / "store"), folder_ / "run");
    train::TrainHere(task, train::SmallOptions());
  }

  Config Base(const std::string& out) {
    Config config;
    config.Set("model", "'" + train::ModelFile(folder_ / "run").string() + "'");
    config.Set("store", "'" + (folder_ / "store").string() + "'");
    config.Set("out", "'" + (folder_ / out).string() + "'");
    config.Set("threads", "1");
    config.Set("train.schedule.epochs", "1");
    config.Set("train.data.minibatch", "64");
    config.Set("train.held-out.fraction", "0.2");
    return config;
  }

  json Run(const Config& config) {
    printed_.str("");
    return json::parse(RunCommand("compress", config, printed_));
  }

  const testing::TemporaryFolder folder_;
  std::ostringstream printed_;
};

TEST_F(Compress, ShowsVariantsSideBySideAndRepeatsNoneThatIsFinished) {
  Config config = Base("variants");
  config.Set("variants.thin", R"(["method=prune", "prune.sparsity=0.5", "prune.first=true"])");
  config.Set("variants.eight", R"(["from=thin", "method=quantize", "retrain=false"])");  // sorts before "thin"
  config.Set("variants.skip", R"(["nnet.frame-skip=2"])");
  config.Set("variants.pair", R"(["method=multiframe", "multiframe.frames=2"])");
  const json result = Run(config);
  ASSERT_EQ(result.at("variants").size(), 5U);
  const auto accuracy = [&](const char* name) {
    for (const json& v : result.at("variants")) {
      if (v.at("name") == name) return v.at("result").at("frame_accuracy").get<double>();
    }
    return -1.0;
  };
  EXPECT_GT(accuracy("full"), 0.6);
  EXPECT_LT(accuracy("skip"), accuracy("full") - 0.02) << "copied scores are those of the frame before";
  EXPECT_GT(accuracy("pair"), 0.4);
  EXPECT_NEAR(accuracy("eight"), accuracy("thin"), 0.05);
  EXPECT_TRUE(fs::exists(folder_ / "variants/variants.md"));
  const auto written = fs::last_write_time(folder_ / "variants/thin/outcome.json");
  config.Set("variants.more", R"(["method=quantize", "retrain=false"])");
  EXPECT_EQ(Run(config).at("variants").size(), 6U);
  EXPECT_EQ(fs::last_write_time(folder_ / "variants/thin/outcome.json"), written);
  config.Set("train.schedule.epochs", "2");
  Run(config);
  EXPECT_NE(fs::last_write_time(folder_ / "variants/thin/outcome.json"), written);
}

// The model as it is, too, is only as good as the speech on which it is measured.
TEST_F(Compress, MeasuresAnewOnOtherSpeech) {
  Config config = Base("variants");
  config.Set("variants.skip", R"(["nnet.frame-skip=2"])");
  const auto accuracies = [&] {
    std::vector<double> all;
    const json result = Run(config);
    for (const json& v : result.at("variants")) all.push_back(v.at("result").at("frame_accuracy"));
    return all;
  };
  const std::vector<double> before = accuracies();
  ASSERT_EQ(before.size(), 2U);
  config.Set("train.held-out.fraction", "0.5");
  const std::vector<double> of_half = accuracies();
  for (const size_t i : {0U, 1U}) EXPECT_NE(of_half[i], before[i]);
  fs::remove_all(folder_ / "store");
  train::SyntheticData noisy;
  noisy.noise = 3;
  train::MakeSyntheticStore(folder_ / "store", noisy);
  const std::vector<double> of_noise = accuracies();
  for (const size_t i : {0U, 1U}) EXPECT_LT(of_noise[i], of_half[i] - 0.1);
}

TEST_F(Compress, TakesTheModelOfAFolder) {
  for (const auto& [key, value] :
       {std::pair("method", "'quantize'"), std::pair("variants.skip", R"(["nnet.frame-skip=2"])"),
        std::pair("rtf", "1000.0")}) {
    SCOPED_TRACE(key);
    Config config = Base(std::string("of-") + key);
    config.Set("model", "'" + (folder_ / "run").string() + "'");
    config.Set("retrain", "false");
    config.Set(key, value);
    EXPECT_NO_THROW(Run(config));
  }
  EXPECT_EQ(nn::Model::Load(folder_ / "of-rtf/model.safetensors").network.Hash(),
            nn::Model::Load(train::ModelFile(folder_ / "run")).network.Hash());
}

TEST_F(Compress, WritesNeverOverItsModelHoweverItIsNamed) {
  const std::string before = ReadFile(train::ModelFile(folder_ / "run"));
  for (const fs::path& model : {train::ModelFile(folder_ / "run"), folder_ / "run"}) {
    for (const auto& [key, value] :
         {std::pair("method", "'quantize'"), std::pair("variants.skip", R"(["nnet.frame-skip=2"])"),
          std::pair("rtf", "1000.0")}) {
      SCOPED_TRACE(model.string() + " " + key);
      Config config = Base("run");
      config.Set("model", "'" + model.string() + "'");
      config.Set("retrain", "false");
      config.Set(key, value);
      EXPECT_THROW(Run(config), UsageError);
      EXPECT_EQ(ReadFile(train::ModelFile(folder_ / "run")), before);
    }
  }
}

TEST_F(Compress, RefusesVariantsThatMeanNothing) {
  for (const char* settings :
       {R"(["from=nobody", "method=prune"])", R"(["prune.sparsity=0.5"])", R"(["method=shrink"])"}) {
    Config config = Base("bad");
    config.Set("variants.bad", settings);
    EXPECT_THROW(Run(config), UsageError) << settings;
  }
  Config circle = Base("bad");
  circle.Set("variants.a", R"(["from=b", "method=prune"])");
  circle.Set("variants.b", R"(["from=a", "method=prune"])");
  EXPECT_THROW(Run(circle), UsageError);
}

TEST_F(Compress, SearchesUnderABudgetAndGoesOnWhereItWas) {
  Config config = Base("plan");
  config.Set("try", R"(["prune-nodes", "quantize"])");
  config.Set("rtf", "1e-9");
  config.Set("max-wer-loss", "'50%'");
  const json result = Run(config);
  EXPECT_FALSE(result.at("met").get<bool>());
  EXPECT_NE(result.at("conclusion").get<std::string>().find("cannot be met"), std::string::npos);
  EXPECT_TRUE(fs::exists(folder_ / "plan/model.safetensors"));
  EXPECT_TRUE(fs::exists(folder_ / "plan/report.html"));
  EXPECT_NE(printed_.str().find("trying"), std::string::npos);
  const size_t tries = result.at("tries").size();
  EXPECT_GE(tries, 2U);
  EXPECT_EQ(Run(config).at("tries").size(), tries);
  EXPECT_EQ(printed_.str().find("trying"), std::string::npos) << "all tries were there already";
  for (const auto& [key, value] : {std::pair("optimizer.type", "'sgd'"), std::pair("seed", "2")}) {
    config.Set(key, value);
    Run(config);
    EXPECT_NE(printed_.str().find("trying"), std::string::npos) << key << " changes what is tried";
  }
  config.Set("rtf", "1000.0");
  const json easy = Run(config);
  EXPECT_TRUE(easy.at("met").get<bool>());
  EXPECT_EQ(easy.at("tries").size(), 0U);
}

TEST_F(Compress, RefusesABudgetThatIsNoShareAndAMethodThatIsNone) {
  Config config = Base("bad");
  for (const char* share : {"'much'", "'nan'", "'inf%'", "'-1%'"}) {
    config.Set("max-wer-loss", share);
    EXPECT_THROW(Run(config), UsageError) << share;
  }
  Config unknown = Base("bad");
  unknown.Set("try", R"(["shrink"])");
  EXPECT_THROW(Run(unknown), UsageError);
}

// A method's own table does not collide with an option of the search.
TEST_F(Compress, EveryMethodTakesItsTable) {
  Config config = Base("pair");
  config.Set("method", "multiframe");
  config.Set("multiframe.frames", "2");
  config.Set("retrain", "false");
  Run(config);
  EXPECT_EQ(nn::Model::Load(folder_ / "pair/model.safetensors").frames_per_forward, 2);
}

}  // namespace
}  // namespace antiphon::app
