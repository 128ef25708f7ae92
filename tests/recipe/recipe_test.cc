// Recipes: what is run, what is skipped and why, what survives a step that fails half-way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "recipe/runner.h"

namespace antiphon::recipe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A folder of its own, with a recipe whose command "copy" appends its input to its output and notes that it ran.
class RecipeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() /
           ("antiphon_recipe_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
    WriteFileAtomically(dir_ / "in", "first");
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

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

  std::filesystem::path dir_;
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

TEST_F(RecipeTest, RunsOnceAndThenSkipsEverything) {
  WriteRecipe(kTwoSteps);
  Run();
  EXPECT_THAT(ran_, ElementsAre(Out("a"), Out("b")));
  EXPECT_EQ(ReadFile(Out("b")), "first++");
  const auto outcomes = Run();
  EXPECT_TRUE(ran_.empty());
  EXPECT_EQ(outcomes[1].state, StepOutcome::State::kUpToDate);
  EXPECT_THAT(SummaryTable(LoadRecipe(dir_ / "r.toml", {}), outcomes), HasSubstr("WER 12.50 %"));
}

TEST_F(RecipeTest, ChangedInputMakesItsStepAndThoseBehindItRunAgain) {
  WriteRecipe(kTwoSteps);
  Run();
  WriteFileAtomically(dir_ / "in", "other");
  const auto outcomes = Run();
  EXPECT_THAT(ran_, ElementsAre(Out("a"), Out("b")));
  EXPECT_THAT(outcomes[0].reason, HasSubstr("in' changed"));
}

TEST_F(RecipeTest, ChangedOptionRunsItsStepOnlyWhenTheOutputStaysTheSame) {
  WriteRecipe(kTwoSteps);
  Run();
  const auto outcomes = Run({"a.weight=2"});
  EXPECT_THAT(ran_, ElementsAre(Out("a")));
  EXPECT_EQ(outcomes[0].reason, "its options changed");
}

TEST_F(RecipeTest, MissingOrAlteredOutputIsMadeAgain) {
  WriteRecipe(kTwoSteps);
  Run();
  std::filesystem::remove(Out("b"));
  EXPECT_THAT(Run()[1].reason, HasSubstr("is missing"));
  EXPECT_THAT(ran_, ElementsAre(Out("b")));
  WriteFileAtomically(Out("b"), "cut");
  EXPECT_THAT(Run()[1].reason, HasSubstr("changed by somebody else"));
  EXPECT_EQ(ReadFile(Out("b")), "first++");
}

TEST_F(RecipeTest, GoesOnWithTheStepThatFailed) {
  WriteRecipe(kTwoSteps);
  fail_ = "copy2";
  try {
    Run();
    FAIL();
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("step 'b'"));
    EXPECT_THAT(e.what(), HasSubstr("r.toml:"));
    EXPECT_THAT(e.what(), HasSubstr("no luck"));
  }
  fail_.clear();
  Run();
  EXPECT_THAT(ran_, ElementsAre(Out("b")));
}

TEST_F(RecipeTest, ResumesOnlyItsOwnUnfinishedWork) {
  WriteRecipe(
      "[[step]]\nname = \"a\"\ncommand = \"copy\"\noptions = { in = \"${in}\", out = \"${exp}/a\", resume = true }\n"
      "inputs = [\"${in}\"]\noutputs = [\"${exp}/a\"]\n");
  fail_ = "copy";
  EXPECT_THROW(Run(), InputError);
  EXPECT_FALSE(resumed_);
  EXPECT_THROW(Run(), InputError);
  EXPECT_TRUE(resumed_);
  WriteFileAtomically(dir_ / "in", "other");
  fail_.clear();
  Run();
  EXPECT_FALSE(resumed_) << "the work of other data was taken up";
}

TEST_F(RecipeTest, StepWithoutItsOutputIsNotFinished) {
  WriteRecipe("[[step]]\nname = \"a\"\nscript = \"nothing.sh\"\noutputs = [\"${exp}/a\"]\n");
  WriteFileAtomically(dir_ / "nothing.sh", "#!/bin/sh\nexit 0\n");
  std::filesystem::permissions(dir_ / "nothing.sh", std::filesystem::perms::owner_all);
  EXPECT_THROW(Run(), InputError);
  WriteFileAtomically(dir_ / "nothing.sh", "#!/bin/sh\nexit 3\n");
  std::filesystem::permissions(dir_ / "nothing.sh", std::filesystem::perms::owner_all);
  try {
    Run();
    FAIL();
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("status 3"));
  }
}

TEST_F(RecipeTest, DryRunMakesNothingAndFollowsDependencies) {
  WriteRecipe(kTwoSteps);
  const auto outcomes = Run({}, {.dry_run = true});
  EXPECT_TRUE(ran_.empty());
  EXPECT_FALSE(std::filesystem::exists(dir_ / "exp"));
  EXPECT_EQ(outcomes[1].reason, "its inputs will be made anew");
}

TEST_F(RecipeTest, FromAndToBoundTheRun) {
  WriteRecipe(kTwoSteps);
  Run({}, {.to = "a"});
  EXPECT_THAT(ran_, ElementsAre(Out("a")));
  WriteFileAtomically(dir_ / "in", "other");
  Run({}, {.from = "b"});
  EXPECT_THAT(ran_, ElementsAre(Out("b")));
  EXPECT_EQ(ReadFile(Out("b")), "first++");
  try {
    Run({}, {.to = "aa"});
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_THAT(e.what(), HasSubstr("did you mean 'a'"));
  }
}

TEST_F(RecipeTest, ForeachSpreadsAndWhenLeavesOut) {
  WriteRecipe(R"(
[[step]]
name = "copy-${n}"
foreach = { n = "${names}" }
command = "copy"
options = { in = "${in}", out = "${exp}/${n}" }
outputs = ["${exp}/${n}"]
[[step]]
name = "never"
when = "${empty}"
command = "copy"
options = { in = "${in}", out = "${exp}/never" }
outputs = ["${exp}/never"]
)");
  const auto outcomes = Run();
  EXPECT_THAT(ran_, ElementsAre(Out("x"), Out("y")));
  EXPECT_EQ(outcomes[2].state, StepOutcome::State::kLeftOut);
  Run({"names=[ 'u', 'v' ]"});
  EXPECT_THAT(ran_, ElementsAre(Out("u"), Out("v")));
}

TEST_F(RecipeTest, AWordOfAForeachThatIsANumberIsOneInTheOptions) {
  WriteRecipe(R"(
[[step]]
name = "scaled-${n}"
foreach = { n = "2 3" }
command = "copy"
options = { in = "${in}", out = "${exp}/${n}", weight = "${n}", layers = [{ dim = "${n}" }], by = "${scale}" }
outputs = ["${exp}/${n}"]
)");
  Run();
  const Config options = Config::Load(dir_ / "exp/.steps/scaled-3.toml");
  EXPECT_EQ(options.Int("weight"), 3);
  EXPECT_EQ(options.Int("by"), 1);
  EXPECT_THAT(ReadFile(dir_ / "exp/.steps/scaled-3.toml"), HasSubstr("dim = 3"));
}

TEST_F(RecipeTest, ProvidedValuesReachLaterStepsUnlessTheyAreSet) {
  const std::string steps = R"(
[[step]]
name = "a"
command = "copy"
options = { in = "${in}", out = "${exp}/a.toml" }
outputs = ["${exp}/a.toml"]
provides = "${exp}/a.toml"
[[step]]
name = "b"
command = "copy"
options = { in = "${in}", out = "${exp}/b${leaves}" }
outputs = ["${exp}/b${leaves}"]
)";
  WriteRecipe(steps);
  WriteFileAtomically(dir_ / "in", "leaves = 70 #");
  Run();
  EXPECT_THAT(ran_, ElementsAre(Out("a.toml"), Out("b70")));
  Run();
  EXPECT_TRUE(ran_.empty());
  WriteRecipe("leaves = \"auto\"\n" + steps);
  Run({"leaves=5"});
  EXPECT_THAT(ran_, ElementsAre(Out("b5")));
}

TEST(RecipeVariables, WholeValuesTakeTheTypeOfTheVariable) {
  RecipeVariables variables;
  variables.Set("n", "12");
  variables.Set("name", "a\"b");
  variables.Set("twice", "${n}${n}");
  EXPECT_EQ(variables.ExpandToml("x = '${n}'\ny = \"${name}\"\nz = \"n${n}\"\nw = '${twice}'", "here"),
            "x = 12\ny = \"a\\\"b\"\nz = \"n12\"\nw = 1212");
  variables.Set("list", "[0.9, 1.1]");
  EXPECT_EQ(variables.ExpandToml("x = '${list}'", "here"), "x = [0.9, 1.1]");
  variables.Set("circle", "${circle}");
  EXPECT_THROW(variables.Expand("${circle}", "here"), UsageError);
}

TEST(RecipeVariables, ConditionalTextStandsOnlyIfItsVariableHolds) {
  RecipeVariables variables;
  variables.Set("exp", "here");
  variables.Set("adapted", "true");
  variables.Set("speeds", "[]");
  EXPECT_EQ(variables.Expand("${exp}${adapted:+/gmm}/train", "r:1"), "here/gmm/train");
  EXPECT_EQ(variables.Expand("${exp}/align${speeds:+-copies}", "r:1"), "here/align");
  EXPECT_EQ(variables.Expand("${adapted:+${exp}/model${speeds:+2}}.", "r:1"), "here/model.");
  EXPECT_EQ(variables.ExpandToml("a = \"${adapted:+5}\"\nb = \"${speeds:+${exp}}\"", "r:1"), "a = 5\nb = \"\"");
  EXPECT_THROW(variables.Expand("${adapted:+${exp}", "r:1"), UsageError);
  EXPECT_THROW(variables.Expand("${adapte:+x}", "r:1"), UsageError);
}

TEST_F(RecipeTest, RefusesUnknownKeysVariablesAndStepsWithTheNearest) {
  const auto message = [&](const std::string& steps, const std::vector<std::string>& set) -> std::string {
    WriteRecipe(steps);
    try {
      LoadRecipe(dir_ / "r.toml", set);
    } catch (const UsageError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(message("[[step]]\nname = \"a\"\ncomand = \"x\"\n", {}), HasSubstr("did you mean 'command'"));
  EXPECT_THAT(message(kTwoSteps, {"scal=3"}), HasSubstr("did you mean 'scale'"));
  EXPECT_THAT(message(kTwoSteps, {"c.x=3"}), HasSubstr("unknown step 'c'"));
  EXPECT_THAT(message("[[step]]\nname = \"a\"\ncommand = \"x\"\n", {}), HasSubstr("names no outputs"));
  WriteRecipe("[[step]]\nname = \"a\"\ncommand = \"x\"\ninputs = [\"${ip}\"]\noutputs = [\"o\"]\n");
  EXPECT_THROW(Run(), UsageError);
}

TEST_F(RecipeTest, IncludedRecipeIsTakenOverAndChangedWhereTheFileSaysSo) {
  WriteRecipe(kTwoSteps);
  std::filesystem::create_directories(dir_ / "sub");
  WriteFileAtomically(dir_ / "sub" / "mine.toml", R"(title = "mine"
include = "../r.toml"
[vars]
scale = 3
more = "${scale}${scale}"
[[step]]
name = "a"
options = { weight = "${more}", deep = { x = 1 } }
[[step]]
name = "first"
before = "a"
command = "copy"
options = { in = "${in}", out = "${recipe_dir}/first" }
outputs = ["${recipe_dir}/first", "${empty}x"]
inputs = ["${empty}"]
[[step]]
name = "last"
script = "last.sh"
outputs = ["${recipe_dir}/last"]
)");
  const Recipe recipe = LoadRecipe(dir_ / "sub" / "mine.toml", {"a.deep.x=2"});
  EXPECT_EQ(recipe.title, "mine");
  std::vector<std::string> names;
  for (const RecipeStep& step : recipe.steps) names.push_back(step.name);
  EXPECT_THAT(names, ElementsAre("first", "a", "b", "last"));
  const RecipeStep a = ExpandStep(recipe.steps[1], recipe.variables);
  const Config options = Config::Parse(a.options_toml, "a");
  EXPECT_EQ(options.Int("weight"), 33);
  EXPECT_EQ(options.Int("deep.x"), 2);
  EXPECT_EQ(options.Text("in"), (dir_ / "in").string()) << "options that are not named are inherited";
  EXPECT_THAT(a.inputs, ElementsAre((dir_ / "in").string()));
  EXPECT_THAT(a.where, HasSubstr("mine.toml:6"));
  EXPECT_THAT(recipe.steps[2].where, HasSubstr("r.toml:"));
  const RecipeStep first = ExpandStep(recipe.steps[0], recipe.variables);
  EXPECT_EQ(first.outputs[0], (dir_ / "sub" / "first").string());
  EXPECT_TRUE(first.inputs.empty()) << "an input that expands to nothing is none";
  EXPECT_EQ(recipe.steps[3].script_dir, dir_ / "sub");
}

TEST_F(RecipeTest, OptionOfAllSparesCommandsThatHaveItAndScripts) {
  WriteRecipe(
      "[[step]]\nname = \"a\"\ncommand = \"x\"\noutputs = [\"o\"]\noptions = { deep = { y = 1 } }\n"
      "[[step]]\nname = \"b\"\ncommand = \"x\"\noutputs = [\"p\"]\noptions = { seed = 7 }\n"
      "[[step]]\nname = \"c\"\nscript = \"c.sh\"\noutputs = [\"q\"]\n");
  Recipe recipe = LoadRecipe(dir_ / "r.toml", {});
  const std::string before = DescribeStep(ExpandStep(recipe.steps[0], recipe.variables)).options;
  SetOptionOfAll(recipe, "seed", "2");
  EXPECT_EQ(Config::Parse(recipe.steps[0].options_toml, "a").Int("seed"), 2);
  EXPECT_EQ(Config::Parse(recipe.steps[0].options_toml, "a").Int("deep.y"), 1);
  EXPECT_EQ(Config::Parse(recipe.steps[1].options_toml, "b").Int("seed"), 7);
  EXPECT_EQ(recipe.steps[2].options_toml, "");
  EXPECT_NE(DescribeStep(ExpandStep(recipe.steps[0], recipe.variables)).options, before) << "not up to date any more";
}

TEST_F(RecipeTest, InheritedTableWithAnotherTypeIsReplacedAndOtherCommandsDropTheOptions) {
  WriteRecipe(
      "[[step]]\nname = \"a\"\ncommand = \"x\"\noutputs = [\"o\"]\n"
      "options = { keep = 1, schedule = { type = \"newbob\", patience = 3 } }\n"
      "[[step]]\nname = \"b\"\ncommand = \"x\"\noutputs = [\"o\"]\noptions = { keep = 1 }\n");
  WriteFileAtomically(dir_ / "mine.toml",
                      "include = \"r.toml\"\n"
                      "[[step]]\nname = \"a\"\noptions = { schedule = { type = \"constant\" } }\n"
                      "[[step]]\nname = \"b\"\ncommand = \"y\"\n");
  const Recipe recipe = LoadRecipe(dir_ / "mine.toml", {});
  const Config a = Config::Parse(recipe.steps[0].options_toml, "a");
  EXPECT_EQ(a.Int("keep"), 1);
  EXPECT_EQ(a.Text("schedule.type"), "constant");
  EXPECT_FALSE(a.Has("schedule.patience"));
  EXPECT_EQ(recipe.steps[1].command, "y");
  EXPECT_EQ(recipe.steps[1].options_toml, "");
}

TEST_F(RecipeTest, ErrorsInIncludesNameTheFileThatIsWrong) {
  const auto message = [&](const std::string& text) -> std::string {
    WriteFileAtomically(dir_ / "mine.toml", text);
    try {
      const Recipe recipe = LoadRecipe(dir_ / "mine.toml", {});
      for (const RecipeStep& step : recipe.steps) ExpandStep(step, recipe.variables);
    } catch (const UsageError& e) {
      return e.what();
    }
    return "";
  };
  WriteRecipe("[[step]]\nname = \"a\"\ncommand = \"x\"\ninputs = [\"${ip}\"]\noutputs = [\"o\"]\n");
  EXPECT_THAT(message("\ninclude = \"gone.toml\"\n"), AllOf(HasSubstr("mine.toml:2: "), HasSubstr("gone.toml")));
  EXPECT_THAT(message("include = 3\n"), HasSubstr("mine.toml:1: "));
  EXPECT_THAT(message("include = \"r.toml\"\n"), AllOf(HasSubstr("r.toml:8: "), HasSubstr("unknown variable 'ip'")));
  EXPECT_EQ(message("include = \"r.toml\"\n[vars]\nip = 1\n"), "");
  EXPECT_THAT(message("include = \"r.toml\"\n[[step]]\nname = \"a\"\nbefore = \"a\"\n"),
              AllOf(HasSubstr("mine.toml:4: "), HasSubstr("inherited")));
  EXPECT_THAT(message("include = \"r.toml\"\n[[step]]\nname = \"c\"\nbefore = \"d\"\nalways = true\ncommand = \"x\""),
              AllOf(HasSubstr("mine.toml:4: "), HasSubstr("unknown step 'd'")));
  WriteRecipe("[[step]]\nname = \"a\"\ncomand = \"x\"\n");
  EXPECT_THAT(message("include = \"r.toml\"\n"), AllOf(HasSubstr("r.toml:10: "), HasSubstr("'command'")));
  WriteFileAtomically(dir_ / "r.toml", "include = \"mine.toml\"\n");
  EXPECT_THAT(message("include = \"r.toml\"\n"), AllOf(HasSubstr("r.toml:1: "), HasSubstr("in a circle")));
  EXPECT_THAT(message("include = \"mine.toml\"\n"), AllOf(HasSubstr("mine.toml:1: "), HasSubstr("in a circle")));
}

// Every recipe that comes with the program loads, and its steps expand but for what earlier steps provide.
TEST(ShippedRecipes, Load) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(ANTIPHON_SOURCE_DIR "/recipes")) {
    if (entry.path().extension() != ".toml") continue;
    const Recipe recipe = LoadRecipe(entry.path(), {});
    for (const RecipeStep& step : recipe.steps) ExpandStep(step, recipe.variables, true);
    ++count;
  }
  EXPECT_GE(count, 6);
}

TEST_F(RecipeTest, MissingInputNamesTheStepAndTheFile) {
  WriteRecipe(kTwoSteps);
  std::filesystem::remove(dir_ / "in");
  try {
    Run();
    FAIL();
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("step 'a'"));
    EXPECT_THAT(e.what(), HasSubstr("its input '" + (dir_ / "in").string()));
  }
}

TEST_F(RecipeTest, AStepBeforeTheOneThatMakesItsInputIsRefusedBeforeAnythingRuns) {
  WriteRecipe(R"(
[[step]]
name = "late"
command = "copy2"
options = { in = "${exp}/a", out = "${exp}/b" }
inputs = ["${exp}/a"]
outputs = ["${exp}/b"]
[[step]]
name = "a"
unless = "${empty}"
command = "copy"
options = { in = "${in}", out = "${exp}/a" }
inputs = ["${in}"]
outputs = ["${exp}/a"]
)");
  try {
    Run();
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("step 'late'"), HasSubstr("the later step 'a'"), HasSubstr("r.toml:")));
  }
  EXPECT_TRUE(ran_.empty());
  // A step that is left out makes nothing: what it would have made may lie there.
  WriteFileAtomically(Out("a"), "there");
  Run({"empty=yes"});
  EXPECT_THAT(ran_, ElementsAre(Out("b")));
}

TEST_F(RecipeTest, AStepIsNoPath) {
  for (const char* name : {"../../evil", "a/b", ".hidden", ""}) {
    WriteRecipe(std::string("[[step]]\nname = \"") + name +
                "\"\ncommand = \"copy\"\noptions = { in = \"${in}\", out = \"${exp}/a\" }\noutputs = [\"${exp}/a\"]\n");
    EXPECT_THROW(Run(), UsageError) << name;
    EXPECT_TRUE(ran_.empty());
  }
  WriteRecipe(
      "[[step]]\nname = \"${word}\"\nforeach = { word = \"../x y\" }\ncommand = \"copy\"\noptions = { in = "
      "\"${in}\", out = \"${exp}/${word}\" }\noutputs = [\"${exp}/${word}\"]\n");
  EXPECT_THROW(Run(), UsageError) << "nor does a variable make it one";
}

TEST_F(RecipeTest, WhatWasSaidOnceIsNotForgottenInSilence) {
  WriteRecipe(
      "[[step]]\nname = \"a\"\ncommand = \"copy\"\noptions = { in = \"${in}\", out = \"${exp}/a\", scale = "
      "\"${scale}\", rate = 3 }\ninputs = [\"${in}\"]\noutputs = [\"${exp}/a\"]\n");
  Run({"scale=8000"});
  EXPECT_EQ(ran_.size(), 1u);
  try {
    Run();
    ADD_FAILURE() << "the experiment was replaced";
  } catch (const UsageError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("was made with --set scale=8000"), HasSubstr("recipe's own value is 1"),
                                HasSubstr("--set scale=1 to make them anew"), HasSubstr("--set exp=DIR")));
  }
  EXPECT_TRUE(ran_.empty());
  Run({"scale=8000"});
  EXPECT_TRUE(ran_.empty()) << "up to date";
  EXPECT_EQ(Run({}, {.dry_run = true})[0].state, StepOutcome::State::kWouldRun) << "asking changes nothing";
  Run({"scale=1"});
  EXPECT_EQ(ran_.size(), 1u) << "said so";
  Run();
  EXPECT_TRUE(ran_.empty()) << "it is the recipe's own value now";
  Run({"a.rate=4", "exp=" + (dir_ / "exp").string()});
  EXPECT_EQ(ran_.size(), 1u);
  EXPECT_THROW(Run(), UsageError) << "an option of a step";
  Run({"a.rate=3"});
  Run();
  EXPECT_TRUE(ran_.empty());
}

TEST_F(RecipeTest, TheSummaryDoesNotReadLikeAFault) {
  WriteRecipe(
      "[[step]]\nname = \"a\"\nwhen = \"${empty}${no}\"\ncommand = \"copy\"\noptions = { in = \"${in}\", out = "
      "\"${exp}/a\" }\noutputs = [\"${exp}/a\"]\n[[step]]\nname = \"b\"\nunless = \"${scale}\"\ncommand = "
      "\"copy\"\noptions = { in = \"${in}\", out = \"${exp}/b\" }\noutputs = [\"${exp}/b\"]\n");
  const std::string recipe = ReadFile(dir_ / "r.toml");
  WriteFileAtomically(dir_ / "r.toml",
                      recipe.substr(0, recipe.find("empty")) + "no = \"\"\n" + recipe.substr(recipe.find("empty")));
  const std::string table = SummaryTable(LoadRecipe(dir_ / "r.toml", {}), Run());
  EXPECT_THAT(table,
              AllOf(HasSubstr("not needed"), HasSubstr("only with empty or no"), HasSubstr("only without scale")));
}

}  // namespace
}  // namespace antiphon::recipe
