// Recipes: what is run, what is skipped and why, what survives a step that fails half-way.
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

// Also where a file lies at its place already.
TEST_F(RecipeTest, AnOutputThatWasNotThereBeforeIsMade) {
  const auto write = [&](const std::string& outputs) {
    WriteRecipe(
        "[[step]]\nname = \"a\"\ncommand = \"copy\"\noptions = { in = \"${in}\", out = \"${exp}/a\" }\n"
        "inputs = [\"${in}\"]\noutputs = " +
        outputs + "\n");
  };
  write("[\"${exp}/a\"]");
  Run();
  WriteFileAtomically(Out("more"), "old");
  write("[\"${exp}/a\", \"${exp}/more\"]");
  EXPECT_EQ(Run()[0].reason, "the output '" + Out("more") + "' is new");
  EXPECT_THAT(ran_, ElementsAre(Out("a")));
  EXPECT_EQ(Run()[0].state, StepOutcome::State::kUpToDate);
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

TEST_F(RecipeTest, WhatFailedWhileItWasMadeAnewIsNotUpToDate) {
  WriteRecipe(kTwoSteps);
  Run({"scale=1"});
  fail_ = "copy";
  EXPECT_THROW(Run({"scale=2"}), InputError);
  fail_.clear();
  Run({"scale=1"});
  EXPECT_THAT(ran_, ElementsAre(Out("a"))) << "its output may be half the one of scale 2";
}

TEST_F(RecipeTest, MoreThreadsMakeNothingAnew) {
  WriteRecipe(
      "threads = 1\n[[step]]\nname = \"a\"\nscript = \"make.sh\"\narguments = [\"${exp}/a\", \"--jobs\", "
      "\"${threads}\"]\noutputs = [\"${exp}/a\"]\n");
  WriteFileAtomically(dir_ / "make.sh", "#!/bin/sh\necho $3 > $1\n");
  std::filesystem::permissions(dir_ / "make.sh", std::filesystem::perms::owner_all);
  Run({"threads=2"});
  EXPECT_EQ(ReadFile(Out("a")), "2\n");
  EXPECT_EQ(Run({"threads=3"})[0].state, StepOutcome::State::kUpToDate);
}

// An index holds places alone.
TEST_F(RecipeTest, ATableChangesWithItsValues) {
  WriteRecipe(
      "[[step]]\nname = \"a\"\ncommand = \"copy\"\noptions = { in = \"${in}\", out = \"${exp}/a\" }\n"
      "inputs = [\"${in}.scp\"]\noutputs = [\"${exp}/a\"]\n");
  WriteFileAtomically(dir_ / "in.scp", "u in.ark:2");
  WriteFileAtomically(dir_ / "in.ark", "u 1");
  Run();
  Run();
  EXPECT_TRUE(ran_.empty());
  WriteFileAtomically(dir_ / "in.ark", "u 2");
  EXPECT_THAT(Run()[0].reason, HasSubstr("in.ark' changed"));
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
  Run({"a.depth=2"});
  try {
    Run();
    ADD_FAILURE() << "an option that the recipe does not name was forgotten";
  } catch (const UsageError& e) {
    EXPECT_THAT(e.what(),
                AllOf(HasSubstr("leaves it to the command's default"), HasSubstr("--set a.depth=2 to go on")));
  }
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
