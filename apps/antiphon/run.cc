#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "base/pack.h"
#include "base/toml_text.h"
#include "command.h"
#include "processes.h"
#include "recipe/runner.h"
#include "recipe/settings.h"

namespace antiphon::app {
namespace {

struct RunCommandOptions {
  std::string recipe;
  std::string from, to;
  bool force = false, dry_run = false, list = false;
  template <class V>
  void Visit(V& v) {
    v("recipe", recipe, "recipe file");
    v("from", from, "begin with this step; take what earlier ones left as it is");
    v("to", to, "end with this step");
    v("force", force, "run also steps that are up to date");
    v("dry-run", dry_run, "say what would be done and why, do nothing");
    v("list", list, "list the variables and steps of the recipe");
  }
};

void CollectAssignments(const Config& config, const std::string& prefix, std::vector<std::string>& assignments) {
  for (const std::string& key : config.Keys()) {
    if (config.IsTable(key)) {
      CollectAssignments(config.Table(key), prefix + key + ".", assignments);
    } else {
      assignments.push_back(prefix + key + "=" + ValueAsToml(config, key));
    }
  }
}

void List(const recipe::Recipe& recipe, CommandContext& context) {
  nlohmann::ordered_json json = {{"recipe", recipe.title},
                                 {"variables", nlohmann::ordered_json::object()},
                                 {"steps", nlohmann::ordered_json::array()}};
  context.Print("{}\n\nvariables", recipe.title);
  for (const std::string& name : recipe.variables.Names()) {
    const std::string value = recipe.variables.Expand("${" + name + "}", recipe.path.string(), true);
    context.Print("  {} = {}", name, value);
    json["variables"][name] = value;
  }
  context.Print("\nsteps");
  for (const recipe::RecipeStep& unexpanded : recipe.steps) {
    const recipe::RecipeStep step = recipe::ExpandStep(unexpanded, recipe.variables, true);
    context.Print("  {:<24} {}", step.name, step.command.empty() ? step.script : "antiphon " + step.command);
    nlohmann::ordered_json entry = {{"name", step.name}};
    entry[step.command.empty() ? "script" : "command"] = step.command.empty() ? step.script : step.command;
    entry["inputs"] = step.inputs;
    entry["outputs"] = step.outputs;
    json["steps"].push_back(std::move(entry));
  }
  context.SetResult(json.dump(2));
}

std::string ResultJson(const recipe::Recipe& recipe, const std::vector<recipe::StepOutcome>& outcomes) {
  nlohmann::ordered_json json = {{"recipe", recipe.title}, {"steps", nlohmann::json::array()}};
  for (const recipe::StepOutcome& outcome : outcomes) {
    json["steps"].push_back({{"name", outcome.name},
                             {"state", recipe::StateName(outcome.state)},
                             {"reason", outcome.reason},
                             {"seconds", outcome.seconds},
                             {"result", nlohmann::json::parse(outcome.result, nullptr, false)}});
  }
  return json.dump(2);
}

// Whether so many processes divide a step's work; the first one takes the others alone.
bool IsDivided(const std::string& command, const Config& config, int processes) {
  static const std::set<std::string> divided = {"align", "decode", "features"};
  if (command != "train") return divided.contains(command);
  // Each process needs a worker at least, and a simulated cluster is one process.
  const Config parallel = config.Table("parallel");
  return parallel.Int("workers").value_or(1) >= processes && parallel.Text("world").value_or("") != "simulated";
}

// A process that mpirun started beside the first one: runs what that one says.
void Follow(comm::ProcessGroup& group, CommandContext& context) {
  for (;;) {
    const std::string told = TextOfFirst(group, "");
    if (told.empty()) return;
    std::string command, options;
    Unpacker unpacker(told);
    unpacker(command);
    unpacker(options);
    RunCommand(command, Config::Parse(options, command), context.out());
  }
}

// A step that `provides` values may fill in "auto": its value is not known before the step has run.
std::string WithoutAuto(const std::string& toml) {
  static const std::string value = R"re([\w.-]+\s*=\s*["']auto["'])re";
  static const std::regex with_comma("(,\\s*" + value + ")|(" + value + "\\s*,?)");
  return std::regex_replace(toml, with_comma, "");
}

bool IsLeftOut(const recipe::RecipeStep& step) {
  return (!step.when.empty() && !recipe::IsTrue(step.when)) || (!step.unless.empty() && recipe::IsTrue(step.unless));
}

// Mistakes in the options of all steps, before the first one runs.
void CheckSteps(const recipe::Recipe& recipe) {
  for (const recipe::RecipeStep& unexpanded : recipe.steps) {
    const recipe::RecipeStep step = recipe::ExpandStep(unexpanded, recipe.variables, true);
    const std::string toml = WithoutAuto(step.options_toml);
    // What an earlier step has yet to find out cannot be read now.
    if (step.command.empty() || toml.find("${") != std::string::npos || IsLeftOut(step)) continue;
    WithContext([&] { CheckCommand(step.command, Config::Parse(toml, step.where)); },
                [&] { return fmt::format("{}: step '{}'", step.where, step.name); });
  }
}

void Run(const RunCommandOptions& options, const std::vector<std::string>& assignments, CommandContext& context) {
  recipe::Recipe recipe = recipe::LoadRecipe(options.recipe, assignments);
  recipe.variables.Set("threads", std::to_string(context.threads()));
  // As an option of the steps, so that what another seed made is not up to date.
  const auto seed = static_cast<int64_t>(context.seed());
  if (seed != CommonOptions{}.seed) SetOptionOfAll(recipe, "seed", std::to_string(seed));
  if (context.config().Has("seed")) recipe.told[recipe::kSeedSetting] = std::to_string(seed);
  if (options.list) return List(recipe, context);
  comm::ProcessGroup& group = Processes();
  SpeakAsProcess(group.process(), context);
  const bool several = group.num_processes() > 1;
  if (group.process() > 0) return Follow(group, context);
  CheckSteps(recipe);
  // For scripts that need a command of it.
  ::setenv("ANTIPHON", std::filesystem::read_symlink("/proc/self/exe").c_str(), 1);
  std::ostream& out = context.out();
  recipe::RecipeRunner runner(
      recipe,
      [&](const std::string& name, Config config) {
        const bool divided = several && IsDivided(name, config, group.num_processes());
        // Where one works alone the others rest, and leave it their cores.
        const int threads = divided ? ThreadsOfProcess(group, context) : context.threads();
        if (!config.Has("threads")) config.Set("threads", std::to_string(threads));
        if (!divided) {
          const AloneScope alone;
          return RunCommand(name, config, out);
        }
        Packer packer;
        packer(name);
        packer(config.ToToml());
        TextOfFirst(group, packer.bytes());
        return RunCommand(name, config, out);
      },
      [&](const std::string& line) { context.PrintLine(line); });
  const auto outcomes =
      runner.Run({.from = options.from, .to = options.to, .force = options.force, .dry_run = options.dry_run});
  if (several) TextOfFirst(group, "");
  context.PrintLine("\n" + recipe::SummaryTable(recipe, outcomes));
  context.SetResult(ResultJson(recipe, outcomes));
}

// Takes keys that it does not know as the recipe's variables, which only the recipe can check.
class RunRecipeCommand : public CommandOf<RunCommandOptions> {
 public:
  explicit RunRecipeCommand(CommandInfo info) : CommandOf(std::move(info), nullptr) {}
  void Run(CommandContext& context) override {
    const auto [options, assignments] = Read(context.config());
    app::Run(options, assignments, context);
  }
  void CheckOptions(const Config& config) const override {
    const auto [options, assignments] = Read(config);
    CheckSteps(recipe::LoadRecipe(options.recipe, assignments));
  }

 private:
  // The command's own options, and assignments to the recipe's variables and steps.
  std::pair<RunCommandOptions, std::vector<std::string>> Read(const Config& config) const {
    std::vector<std::string> known = OtherKeys(info()), others = known, assignments;
    for (const OptionDescription& option : options()) known.push_back(option.name);
    for (const std::string& key : config.Keys()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      others.push_back(key);
      if (config.IsTable(key)) {
        CollectAssignments(config.Table(key), key + ".", assignments);
      } else {
        assignments.push_back(key + "=" + ValueAsToml(config, key));
      }
    }
    return {ReadOptions<RunCommandOptions>(config, others), assignments};
  }
};

REGISTER_COMPONENT(CommandRegistry, "run", [] {
  return std::make_unique<RunRecipeCommand>(CommandInfo{
      .summary = "run a recipe: every step from recordings to words",
      .description = "Steps whose inputs, options and outputs did not change are skipped; a run that was stopped goes "
                     "on where it was. --set NAME=VALUE sets a variable of the recipe, --set STEP.OPTION=VALUE an "
                     "option of one of its steps.",
      .example = "antiphon run recipes/fsdd.toml --set data=corpora/fsdd\n"
                 "antiphon run recipes/fsdd.toml --dry-run\n"
                 "antiphon run recipes/fsdd.toml --from train --set train.schedule.epochs=4",
      .positionals = {"recipe"},
      .required = {"recipe"}});
});

}  // namespace
}  // namespace antiphon::app
