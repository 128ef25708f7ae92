#include "command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "adapt/method.h"
#include "base/error.h"
#include "base/file.h"
#include "compress/method.h"
#include "math/safetensors.h"
#include "nn/model.h"
#include "temporary_folder.h"

namespace antiphon::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Arguments = std::vector<std::string>;

struct EchoGroup {
  double rate = 0.5;
  template <class V>
  void Visit(V& v) {
    v("rate", rate, Range{0.0, 1.0}, "a rate");
  }
};

struct EchoOptions {
  std::string input;
  std::vector<std::string> others;
  int count = 3;
  bool deep = false;
  std::string kind = "a";
  std::vector<int> sizes = {1};
  EchoGroup group;
  template <class V>
  void Visit(V& v) {
    v("input", input, "what to echo");
    v("others", others, "more");
    v("count", count, Range{1, 9}, "how often");
    v("deep", deep, "deeply");
    v("kind", kind, OneOf{{"a", "b"}}, "kind of echo");
    v("sizes", sizes, "sizes");
    v.Group("group", group);
  }
};

EchoOptions last;

void Echo(const EchoOptions& options, CommandContext& context) {
  last = options;
  context.Print("{} times", options.count);
  context.SetResult(fmt::format("{{\"seed\": {}}}", context.seed()));
}

REGISTER_COMMAND("test echo", EchoOptions, Echo,
                 {.summary = "echoes",
                  .description = "",
                  .example = "antiphon test echo hello",
                  .positionals = {"input", "others"},
                  .required = {"input"},
                  .tables = {"free"}});

std::string RunLine(const Arguments& arguments) {
  const CommandLine line = ParseCommandLine(arguments);
  std::ostringstream out;
  RunCommand(line.command, line.config, out);
  return out.str();
}

std::string ErrorOf(const Arguments& arguments) {
  try {
    RunLine(arguments);
  } catch (const UsageError& e) {
    return e.what();
  }
  return "no error";
}

TEST(CommandLine, FillsTheOptionsFromFlagsAndPositionals) {
  EXPECT_EQ(RunLine({"test", "echo", "12", "--count", "5", "x", "--deep", "y", "--sizes", "1,2", "--sizes=3",
                     "--group.rate", "0.25", "--kind=b"}),
            "5 times\n");
  EXPECT_EQ(last.input, "12") << "a text stays a text though it looks like a number";
  EXPECT_EQ(last.others, (Arguments{"x", "y"}));
  EXPECT_TRUE(last.deep);
  EXPECT_EQ(last.sizes, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(last.group.rate, 0.25);
  EXPECT_EQ(last.kind, "b");
}

TEST(CommandLine, TakesAListAsFilesWriteIt) {
  for (const Arguments& sizes :
       {Arguments{"--sizes", "[4, 5]"}, {"--sizes", "4,5"}, {"--sizes", "4", "--sizes", "5"}}) {
    Arguments arguments = {"test", "echo", "in"};
    arguments.insert(arguments.end(), sizes.begin(), sizes.end());
    RunLine(arguments);
    EXPECT_EQ(last.sizes, (std::vector<int>{4, 5}));
  }
}

TEST(CommandLine, FlagsWinOverSetAndSetOverTheFile) {
  antiphon::testing::TemporaryFolder folder;
  std::ofstream(folder / "c.toml")
      << "count = 2\ndeep = true\nkind = 'b'\n[group]\nrate = 0.125\n[free]\nanything = 1\n";
  const std::string file = (folder / "c.toml").string();
  RunLine({"test", "echo", "--config", file, "--set", "count=4", "--set", "kind=a", "--count", "6", "--no-deep", "in"});
  EXPECT_EQ(last.count, 6);
  EXPECT_FALSE(last.deep);
  EXPECT_EQ(last.kind, "a");
  EXPECT_EQ(last.group.rate, 0.125);
}

TEST(CommandLine, ARecipeTakesListsForItsVariablesAndForOptionsOfItsSteps) {
  antiphon::testing::TemporaryFolder folder;
  std::ofstream(folder / "r.toml") << R"([vars]
exp = "."
numbers = "[7]"
[[step]]
name = "echo-${word}"
foreach = { word = "a b" }
command = "test echo"
options = { input = "in", others = ["z"], sizes = "${numbers}" }
always = true
)";
  const std::string exp = "exp=" + folder.path().string();
  RunLine({"run", (folder / "r.toml").string(), "--set", exp, "--set", "numbers=[8, 9]", "--set",
           "echo-b.others=['x', 'y']"});
  EXPECT_EQ(last.sizes, (std::vector<int>{8, 9}));
  EXPECT_EQ(last.others, (Arguments{"x", "y"}));
}

TEST(CommandLine, PrintsTheResultAloneWithJson) {
  EXPECT_EQ(RunLine({"test", "echo", "in", "--json", "--seed", "77"}), "{\"seed\": 77}\n");
}

TEST(CommandLine, NamesTheNearestKnownThing) {
  EXPECT_THAT(ErrorOf({"test", "ecco", "x"}), HasSubstr("did you mean 'test echo'?"));
  EXPECT_THAT(ErrorOf({"docter"}), HasSubstr("did you mean 'doctor'?"));
  EXPECT_THAT(ErrorOf({"test", "echo", "in", "--cuont", "3"}), HasSubstr("did you mean '--count'?"));
  EXPECT_THAT(ErrorOf({"test", "echo", "in", "--cuont=3"}), HasSubstr("did you mean '--count'?"));
  EXPECT_THAT(ErrorOf({"test", "echo", "in", "--set", "cuont=3"}), HasSubstr("did you mean 'count'?"));
  EXPECT_THAT(ErrorOf({"test", "echo", "in", "--kind", "c"}), HasSubstr("known: a, b"));
  EXPECT_THAT(ErrorOf({"--verson"}), HasSubstr("--version"));
}

TEST(CommandLine, RefusesWrongUsage) {
  EXPECT_THAT(ErrorOf({}), HasSubstr("a command is missing"));
  EXPECT_THAT(ErrorOf({"test", "echo"}), HasSubstr("INPUT (or --input) is missing"));
  EXPECT_THAT(ErrorOf({"test", "echo", "in", "--count", "10"}), HasSubstr("must be 1 … 9"));
  EXPECT_THAT(ErrorOf({"test", "echo", "in", "--count", "many"}), HasSubstr("must be a whole number"));
  EXPECT_THAT(ErrorOf({"test", "echo", "in", "--count"}), HasSubstr("--count"));
  EXPECT_THAT(ErrorOf({"doctor", "a", "b"}), HasSubstr("'b' is one argument too many"));
  EXPECT_THAT(ErrorOf({"test", "echo", "--deep", "false", "in"}),
              HasSubstr("'--deep false': a switch takes no value; write --deep or --no-deep"));
}

TEST(CommandLine, ShowsTheBytesOfAnArgumentThatIsNotUtf8) {
  for (const Arguments& arguments :
       {Arguments{"test", "echo", "caf\xe9.wav"}, Arguments{"test", "echo", "a", "caf\xe9.wav"},
        Arguments{"test", "echo", "a", "--kind", "caf\xe9.wav"},
        Arguments{"test", "echo", "a", "--set", "kind=caf\xe9.wav"}}) {
    EXPECT_THAT(ErrorOf(arguments), AllOf(HasSubstr("caf\\xE9.wav"), HasSubstr("not UTF-8")));
  }
}

TEST(CommandLine, HelpShowsEveryOptionWithDefaultLimitsAndAnExample) {
  const std::string help = ParseCommandLine(Arguments{"test", "echo", "--help"}).text;
  for (const char* part : {"--count INTEGER", "1 … 9; default 3", "--group.rate NUMBER", "antiphon test echo hello",
                           "[free]", "--threads", "--config", "INPUT [OTHERS]"}) {
    EXPECT_THAT(help, HasSubstr(part));
  }
  EXPECT_THAT(ParseCommandLine(Arguments{"--help"}).text, HasSubstr("doctor"));
  EXPECT_THAT(ParseCommandLine(Arguments{"test"}).text, HasSubstr("test echo"));
}

TEST(Commands, AllDescribeThemselves) {
  for (const std::string& name : CommandRegistry::Get().Names()) {
    SCOPED_TRACE(name);
    const auto command = CommandRegistry::Get().Create(name);
    const CommandInfo& info = command->info();
    EXPECT_FALSE(info.summary.empty());
    EXPECT_THAT(info.summary, Not(::testing::EndsWith(".")));
    EXPECT_THAT(info.example, HasSubstr("antiphon " + name));
    std::vector<std::string> names;
    for (const OptionDescription& option : command->options()) {
      EXPECT_FALSE(option.help.empty()) << option.name;
      names.push_back(option.name);
    }
    for (const std::string& key : info.common) EXPECT_THAT(names, ::testing::Contains(key));
    names.insert(names.end(), info.tables.begin(), info.tables.end());
    for (const std::string& key : info.positionals) EXPECT_THAT(names, ::testing::Contains(key));
    for (const std::string& key : info.required) EXPECT_THAT(names, ::testing::Contains(key));
  }
}

TEST(Commands, TakeATableForTheOptionsOfEachMethod) {
  const std::pair<const char*, Arguments> cases[] = {{"adapt", adapt::MethodRegistry::Get().Names()},
                                                     {"compress", compress::MethodRegistry::Get().Names()}};
  for (const auto& [name, methods] : cases) {
    const auto command = CommandRegistry::Get().Create(name);
    EXPECT_FALSE(methods.empty()) << name;
    EXPECT_THAT(command->info().tables, ::testing::IsSupersetOf(methods)) << name;
  }
}

// A prior of −∞ is that of a class without data.
TEST(Info, SaysWhichValueOfAModelOrATableIsNotFinite) {
  const testing::TemporaryFolder folder;
  const auto told = [&](const std::string& name) -> std::string {
    try {
      return RunLine({"info", (folder / name).string()});
    } catch (const InputError& e) {
      return e.what();
    }
  };
  nn::Model model;
  model.network = nn::Network(Config::Parse("layer = [{type = 'affine', name = 'a'}]", "net"), 3, 2, 7);
  model.feature_dim = 3;
  model.log_priors = {0, -INFINITY};
  model.Save(folder / "whole.safetensors");
  EXPECT_THAT(told("whole.safetensors"), AllOf(HasSubstr("checksum"), Not(HasSubstr("not finite"))));
  model.network.parameters()[0]->value(1, 2) = NAN;
  model.Save(folder / "model.safetensors");
  EXPECT_THAT(told("model.safetensors"),
              AllOf(HasSubstr("not finite"), HasSubstr("'a.weight' [2, 3]"), HasSubstr("5")));
  SafetensorsWriter writer;
  const float values[] = {1, INFINITY};
  writer.Add("sums", std::span<const float>(values));
  writer.Write(folder / "state.safetensors");
  EXPECT_THAT(told("state.safetensors"), AllOf(HasSubstr("not finite"), HasSubstr("'sums' [2]")));
  WriteFileAtomically(folder / "feats.ark", "one  [\n 1 2 ]\ntwo  [\n 1 2\n 3 nan ]\nthree  [\n 1 2 ]\n");
  EXPECT_THAT(told("feats.ark"),
              AllOf(HasSubstr("not finite"), HasSubstr("key 'two'"), HasSubstr("frames"), HasSubstr("4")));
  WriteFileAtomically(folder / "feats.ark", "one  [\n 1 2 ]\n");
  EXPECT_THAT(told("feats.ark"), Not(HasSubstr("not finite")));
}

}  // namespace
}  // namespace antiphon::app
