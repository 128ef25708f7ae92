// A recipe in a folder of its own, whose commands copy files and note that they ran.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "recipe/runner.h"
#include "temporary_folder.h"

namespace antiphon::recipe {

// A folder of its own, with a recipe whose command "copy" appends its input to its output and notes that it ran.
class RecipeTest : public ::testing::Test {
 protected:
  void SetUp() override { WriteFileAtomically(dir_ / "in", "first"); }

  std::filesystem::path WriteRecipe(const std::string& steps) {
    WriteFileAtomically(dir_ / "r.toml", "title = \"copies\"\n[vars]\nexp = \"" + (dir_ / "exp").string() +
                                             "\"\nin = \"" + (dir_ / "in").string() +
                                             "\"\nscale = 1\nnames = \"x y\"\nempty = \"\"\n" + steps);
    return dir_ / "r.toml";
  }

  std::vector<StepOutcome> Run(const std::vector<std::string>& assignments = {}, const RunOptions& options = {}) {
    ran_.clear();
    RecipeRunner runner(
        LoadRecipe(dir_ / "r.toml", assignments),
        [&](const std::string& command, const Config& config) -> std::string {
          resumed_ = config.Bool("resume").value_or(false);
          if (command == fail_) throw InputError("no luck");
          ran_.push_back(config.RequiredText("out"));
          WriteFileAtomically(config.RequiredText("out"), ReadFile(config.RequiredText("in")) + "+");
          return R"({"unit": "word", "error_rate": 0.125, "errors": 1, "reference_length": 8})";
        },
        [](const std::string&) {});
    return runner.Run(options);
  }

  std::string Out(const std::string& name) const { return (dir_ / "exp" / name).string(); }

  const testing::TemporaryFolder folder_;
  const std::filesystem::path& dir_ = folder_.path();
  std::vector<std::string> ran_;
  std::string fail_;
  bool resumed_ = false;
};

constexpr const char* kTwoSteps = R"(
[[step]]
name = "a"
command = "copy"
options = { in = "${in}", out = "${exp}/a", weight = "${scale}" }
inputs = ["${in}"]
outputs = ["${exp}/a"]
[[step]]
name = "b"
command = "copy2"
options = { in = "${exp}/a", out = "${exp}/b" }
inputs = ["${exp}/a"]
outputs = ["${exp}/b"]
)";

}  // namespace antiphon::recipe
