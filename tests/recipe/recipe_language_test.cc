// The language of recipes: variables, includes, inherited steps, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "recipe/recipe_fixture.h"
#include "recipe/runner.h"

namespace antiphon::recipe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RecipeVariables, WholeValuesTakeTheTypeOfTheVariable) {
  RecipeVariables variables;
  variables.Set("n", "12");
  variables.Set("name", "a\"b");
  variables.Set("twice", "${n}${n}");
  const auto expanded = [&](const std::string& toml) {
    return Config::Parse(variables.ExpandToml(toml, "here"), "expanded");
  };
  const Config all = expanded("x = '${n}'\ny = \"${name}\"\nz = \"n${n}\"\nw = '${twice}'");
  EXPECT_EQ(all.Int("x"), 12);
  EXPECT_EQ(all.Text("y"), "a\"b");
  EXPECT_EQ(all.Text("z"), "n12");
  EXPECT_EQ(all.Int("w"), 1212);
  variables.Set("list", "[0.9, 1.1]");
  EXPECT_EQ(expanded("x = '${list}'").Reals("x"), (std::vector<double>{0.9, 1.1}));
  for (const std::string text : {"01", "[unk]", "[1, "}) {
    variables.Set("text", text);
    EXPECT_EQ(expanded("x = '${text}'").Text("x"), text) << "no value of TOML";
  }
  variables.Set("circle", "${circle}");
  EXPECT_THROW(variables.Expand("${circle}", "here"), UsageError);
}

TEST(RecipeVariables, QuotesAndBackslashesStayWhatTheyAre) {
  RecipeVariables variables;
  variables.Set("exp", R"(C:\new "run" it's)");
  const Config expanded = Config::Parse(
      variables.ExpandToml("a = \"${exp}/x\"\nb = '${exp}/x'\nc = { d = [\"1 ${exp}\", { e = '${exp}.' }] }", "here"),
      "expanded");
  EXPECT_EQ(expanded.Text("a"), R"(C:\new "run" it's/x)");
  EXPECT_EQ(expanded.Text("b"), R"(C:\new "run" it's/x)");
  EXPECT_EQ(expanded.AnyAsText("c.d[0]"), R"(1 C:\new "run" it's)");
  EXPECT_EQ(expanded.AnyAsText("c.d[1].e"), R"(C:\new "run" it's.)");
}

TEST(RecipeVariables, ConditionalTextStandsOnlyIfItsVariableHolds) {
  RecipeVariables variables;
  variables.Set("exp", "here");
  variables.Set("adapted", "true");
  variables.Set("speeds", "[]");
  EXPECT_EQ(variables.Expand("${exp}${adapted:+/gmm}/train", "r:1"), "here/gmm/train");
  EXPECT_EQ(variables.Expand("${exp}/align${speeds:+-copies}", "r:1"), "here/align");
  EXPECT_EQ(variables.Expand("${adapted:+${exp}/model${speeds:+2}}.", "r:1"), "here/model.");
  const Config both =
      Config::Parse(variables.ExpandToml("a = \"${adapted:+5}\"\nb = \"${speeds:+${exp}}\"", "r:1"), "expanded");
  EXPECT_EQ(both.Int("a"), 5);
  EXPECT_EQ(both.Text("b"), "");
  EXPECT_THROW(variables.Expand("${adapted:+${exp}", "r:1"), UsageError);
  EXPECT_THROW(variables.Expand("${adapte:+x}", "r:1"), UsageError);
}

TEST_F(RecipeTest, TablesOfAListStandThereUnderTheirCondition) {
  WriteRecipe(R"([[step]]
name = "a"
command = "copy"
outputs = ["${exp}/a"]
[step.options]
in = "${in}"
out = "${exp}/a"
[[step.options.layer]]
type = "mask"
when = "${names}"
[[step.options.layer]]
type = "repeat"
layers = [{ type = "inner", when = "${empty}" }, { type = "kept", when = "${scale}", dim = 3 }]
[[step.options.layer]]
type = "gone"
when = "${empty}"
[[step.options.layer]]
type = "never"
when = false
)");
  const Recipe recipe = LoadRecipe(dir_ / "r.toml", {});
  const Config options = Config::Parse(ExpandStep(recipe.steps[0], recipe.variables).options_toml, "options");
  const std::vector<Config> layers = options.Tables("layer");
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].Keys(), std::vector<std::string>{"type"});
  const std::vector<Config> inner = layers[1].Tables("layers");
  ASSERT_EQ(inner.size(), 1u);
  EXPECT_EQ(inner[0].RequiredText("type"), "kept");
  EXPECT_EQ(inner[0].Int("dim"), 3);
  EXPECT_FALSE(inner[0].Has("when"));
  // Nothing but the tables of lists has conditions.
  EXPECT_EQ(options.RequiredText("out"), Out("a"));
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

TEST_F(RecipeTest, AStepLikeAnotherBeginsAsItsCopyAndLeavesItAlone) {
  WriteRecipe(kTwoSteps);
  WriteFileAtomically(dir_ / "mine.toml", R"(include = "r.toml"
[[step]]
name = "a2"
like = "a"
before = "b"
options = { weight = 7 }
outputs = ["${recipe_dir}/a2"]
)");
  const Recipe recipe = LoadRecipe(dir_ / "mine.toml", {});
  std::vector<std::string> names;
  for (const RecipeStep& step : recipe.steps) names.push_back(step.name);
  EXPECT_THAT(names, ElementsAre("a", "a2", "b"));
  const RecipeStep a = ExpandStep(recipe.steps[0], recipe.variables);
  const RecipeStep a2 = ExpandStep(recipe.steps[1], recipe.variables);
  EXPECT_EQ(a2.command, a.command);
  EXPECT_EQ(a2.inputs, a.inputs);
  EXPECT_THAT(a2.outputs, ElementsAre((dir_ / "a2").string()));
  EXPECT_EQ(Config::Parse(a2.options_toml, "a2").Int("weight"), 7);
  EXPECT_EQ(Config::Parse(a2.options_toml, "a2").Text("in"), (dir_ / "in").string());
  EXPECT_NE(Config::Parse(a.options_toml, "a").Int("weight"), 7);
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
  EXPECT_THAT(message("include = \"r.toml\"\n[[step]]\nname = \"c\"\nlike = \"d\"\noutputs = [\"o2\"]\n"),
              AllOf(HasSubstr("mine.toml:4: "), HasSubstr("unknown step 'd'")));
  EXPECT_THAT(message("include = \"r.toml\"\n[[step]]\nname = \"a\"\nlike = \"a\"\noutputs = [\"o2\"]\n"),
              AllOf(HasSubstr("mine.toml:4: "), HasSubstr("inherited and cannot be like another")));
  EXPECT_THAT(message("include = \"r.toml\"\n[[step]]\nname = \"c\"\nlike = \"a\"\n"),
              AllOf(HasSubstr("mine.toml:4: "), HasSubstr("needs outputs of its own")));
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

}  // namespace
}  // namespace antiphon::recipe
