#include "recipe/runner.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/cancel.h"
#include "base/child_process.h"
#include "base/error.h"
#include "base/file.h"
#include "base/folder_lock.h"
#include "base/suggest.h"
#include "recipe/settings.h"

namespace antiphon::recipe {
namespace {

namespace fs = std::filesystem;

std::string Duration(double seconds) {
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

bool Overlap(const fs::path& a, const fs::path& b) {
  const fs::path x = a.lexically_normal(), y = b.lexically_normal();
  const auto [i, j] = std::mismatch(x.begin(), x.end(), y.begin(), y.end());
  return i == x.end() || j == y.end();
}

// "arpa, grammar or words" for "${arpa}${grammar}${words}".
std::string NamesIn(const std::string& text) {
  std::vector<std::string> names;
  for (size_t at = text.find("${"); at != std::string::npos; at = text.find("${", at + 2)) {
    names.push_back(text.substr(at + 2, text.find_first_of(":}", at) - at - 2));
  }
  std::string list;
  for (size_t i = 0; i < names.size(); ++i) {
    list += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  }
  return list.empty() ? text : list;
}

// "" for a step that is to run.
std::string WhyLeftOut(const RecipeStep& unexpanded, const RecipeStep& step) {
  if (!unexpanded.unless.empty() && IsTrue(step.unless)) return "only without " + NamesIn(unexpanded.unless);
  if (!unexpanded.when.empty() && !IsTrue(step.when)) return "only with " + NamesIn(unexpanded.when);
  return "";
}

// The line for a result that holds an error rate (score/wer.h's JSON); "" for any other.
std::string ScoreLine(const std::string& result) {
  const auto json = nlohmann::json::parse(result, nullptr, false);
  if (!json.is_object() || !json.contains("error_rate")) return "";
  std::string line = fmt::format("{} {:.2f} %", json.value("unit", "word") == "word" ? "WER" : "CER",
                                 100.0 * json["error_rate"].get<double>());
  if (json.contains("interval")) {
    const auto& interval = json["interval"];
    line += fmt::format("  ({:.0f} %: {:.2f} to {:.2f})", 100.0 * interval.value("confidence", 0.0),
                        100.0 * interval.value("low", 0.0), 100.0 * interval.value("high", 0.0));
  }
  return line + fmt::format("  {} errors in {}", json.value("errors", 0), json.value("reference_length", 0));
}

}  // namespace

RecipeRunner::RecipeRunner(Recipe recipe, RunCommand run_command, Say say)
    : recipe_(std::move(recipe)), run_command_(std::move(run_command)), say_(std::move(say)) {
  state_dir_ = fs::path(recipe_.variables.Expand("${exp}", recipe_.path.string())) / ".steps";
}

void RecipeRunner::CheckNames(const RunOptions& options) const {
  std::vector<std::string> names;
  for (const RecipeStep& step : recipe_.steps) names.push_back(ExpandStep(step, recipe_.variables, true).name);
  for (const auto& [flag, name] : {std::pair{"--from", options.from}, std::pair{"--to", options.to}}) {
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) {
      Throw<UsageError>("{}: {}", flag, UnknownNameMessage("step", name, names));
    }
  }
}

void RecipeRunner::CheckOrder() const {
  std::vector<RecipeStep> steps;
  for (const RecipeStep& unexpanded : recipe_.steps) {
    RecipeStep step = ExpandStep(unexpanded, recipe_.variables, true);
    if (WhyLeftOut(unexpanded, step).empty()) steps.push_back(std::move(step));
  }
  const auto makes = [](const RecipeStep& step, const std::string& input) {
    return std::find(step.outputs.begin(), step.outputs.end(), input) != step.outputs.end();
  };
  for (auto step = steps.begin(); step != steps.end(); ++step) {
    for (const std::string& input : step->inputs) {
      const auto maker = std::find_if(steps.begin(), steps.end(), [&](const RecipeStep& s) { return makes(s, input); });
      if (maker == steps.end() || maker <= step) continue;
      Throw<UsageError>("{}: step '{}' takes '{}', which the later step '{}' makes: put it behind that one",
                        step->where, step->name, input, maker->name);
    }
  }
}

std::vector<StepOutcome> RecipeRunner::Run(const RunOptions& options) {
  CheckNames(options);
  CheckOrder();
  std::optional<FolderLock> lock;
  if (!options.dry_run) {
    lock.emplace(state_dir_, "lock",
                 fmt::format("another run is working in '{}'; wait for it, or choose another folder with --set exp=DIR",
                             state_dir_.parent_path().string()));
    RequireSettingsSaid(recipe_, state_dir_);
    RememberSettings(recipe_, state_dir_);
  }
  std::vector<StepOutcome> outcomes;
  bool before_from = !options.from.empty();
  for (const RecipeStep& step : recipe_.steps) {
    const std::string name = ExpandStep(step, recipe_.variables, true).name;
    before_from = before_from && name != options.from;
    outcomes.push_back(WithContext([&] { return Visit(step, before_from, options); },
                                   [&] { return fmt::format("{}: step '{}'", step.where, name); }));
    if (name == options.to) break;
  }
  return outcomes;
}

StepOutcome RecipeRunner::Visit(const RecipeStep& unexpanded, bool before_from, const RunOptions& options) {
  const RecipeStep step = ExpandStep(unexpanded, recipe_.variables, options.dry_run);
  StepOutcome outcome{step.name, StepOutcome::State::kLeftOut, WhyLeftOut(unexpanded, step), 0.0, "{}"};
  if (!outcome.reason.empty()) return outcome;
  const auto before = LoadRecord(state_dir_, step.name);
  if (before) {
    outcome.seconds = before->seconds;
    outcome.result = before->result;
  }
  if (before_from) {
    outcome.reason = "before --from";
    TakeProvided(step);
    return outcome;
  }
  if (options.dry_run && DependsOnPlanned(step)) {
    outcome.reason = "its inputs will be made anew";
  } else {
    // With any number of threads the same is made.
    RecipeVariables recorded = recipe_.variables;
    recorded.Set("threads", "N");
    StepRecord now = DescribeStep(ExpandStep(unexpanded, recorded, options.dry_run));
    outcome.reason = options.force ? "--force" : step.always ? "always" : ReasonToRun(step, now, before);
    if (outcome.reason.empty()) {
      outcome.state = StepOutcome::State::kUpToDate;
      say_(fmt::format("== {}: up to date (took {})", step.name, Duration(outcome.seconds)));
      TakeProvided(step);
      return outcome;
    }
    if (!options.dry_run) {
      Execute(step, std::move(now), outcome);
      TakeProvided(step);
      return outcome;
    }
  }
  outcome.state = StepOutcome::State::kWouldRun;
  say_(fmt::format("== {}: would run ({})\n   {}", step.name, outcome.reason, CommandLine(step, ConfigPath(step))));
  planned_outputs_.insert(planned_outputs_.end(), step.outputs.begin(), step.outputs.end());
  return outcome;
}

bool RecipeRunner::DependsOnPlanned(const RecipeStep& step) const {
  return std::any_of(step.inputs.begin(), step.inputs.end(), [&](const std::string& input) {
    return std::any_of(planned_outputs_.begin(), planned_outputs_.end(),
                       [&](const std::string& output) { return Overlap(input, output); });
  });
}

void RecipeRunner::Execute(const RecipeStep& step, StepRecord record, StepOutcome& outcome) {
  ThrowIfCancelled("starting " + step.name);
  say_(fmt::format("== {} ({})\n   {}", step.name, outcome.reason, CommandLine(step, ConfigPath(step))));
  const auto start = std::chrono::steady_clock::now();
  const std::string begun = step.name + ".begun";
  // From here on what was recorded of its outputs does not hold: half of them may be other ones.
  fs::remove(state_dir_ / (step.name + ".json"));
  if (!step.script.empty()) {
    RunScript(step);
  } else {
    const bool same = IsSameAttempt(record, LoadRecord(state_dir_, begun));
    SaveRecord(state_dir_, begun, record);
    Config options = Config::Parse(step.options_toml, step.where);
    // A command that can resume may take up its own unfinished work, never that of other data or options.
    if (options.Has("resume") && !same) options.Set("resume", "false");
    WriteFileAtomically(ConfigPath(step), options.ToToml());
    outcome.result = record.result = run_command_(step.command, options);
  }
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  outcome.state = StepOutcome::State::kRan;
  record.seconds = outcome.seconds;
  RecordOutputs(step, record);
  SaveRecord(state_dir_, step.name, record);
  fs::remove(state_dir_ / (begun + ".json"));
  say_(fmt::format("   {} finished in {}", step.name, Duration(outcome.seconds)));
}

void RecipeRunner::RunScript(const RecipeStep& step) const {
  const std::string program = fs::absolute(step.script_dir / step.script).string();
  std::vector<std::string> words = {program};
  if (program.ends_with(".py")) words.insert(words.begin(), "python3");
  words.insert(words.end(), step.arguments.begin(), step.arguments.end());
  const std::optional<int> status = RunProgram(words);
  if (!status) Throw<IoError>("cannot start '{}': there is no such program", words[0]);
  if (*status != 0) {
    Throw<InputError>("the script '{}' failed with status {}; its messages stand above", program, *status);
  }
}

void RecipeRunner::TakeProvided(const RecipeStep& step) {
  if (step.provides.empty()) return;
  const Config values = Config::Load(step.provides);
  for (const std::string& name : values.Keys()) {
    // What the recipe or --set already says wins over what was measured.
    if (!recipe_.variables.Has(name) || recipe_.variables.Expand("${" + name + "}", step.where) == "auto") {
      recipe_.variables.Set(name, *values.AnyAsText(name));
    }
  }
}

std::string_view StateName(StepOutcome::State state) {
  static constexpr std::string_view kStates[] = {"ran", "up to date", "not needed", "would run"};
  return kStates[static_cast<int>(state)];
}

std::string SummaryTable(const Recipe& recipe, const std::vector<StepOutcome>& outcomes) {
  size_t width = 4;
  double total = 0.0;
  for (const StepOutcome& outcome : outcomes) width = std::max(width, outcome.name.size());
  std::string table = fmt::format("{}\n", recipe.title);
  for (const StepOutcome& outcome : outcomes) {
    const bool left_out = outcome.state == StepOutcome::State::kLeftOut;
    table += fmt::format("  {:<{}}  {:<10}  {:>12}  {}\n", outcome.name, width, StateName(outcome.state),
                         outcome.seconds > 0 ? Duration(outcome.seconds) : "", outcome.reason);
    if (!left_out) total += outcome.seconds;
  }
  table += fmt::format("  {:<{}}  {:<10}  {:>12}\n", "all", width, "", Duration(total));
  for (const StepOutcome& outcome : outcomes) {
    if (const std::string line = ScoreLine(outcome.result); !line.empty()) {
      table += fmt::format("  {:<{}}  {}\n", outcome.name, width, line);
    }
  }
  return table;
}

}  // namespace antiphon::recipe
