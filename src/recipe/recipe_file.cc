#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/merge_toml.h"
#include "base/suggest.h"
#include "base/toml_text.h"
#include "recipe/recipe.h"

namespace antiphon::recipe {
namespace {

namespace fs = std::filesystem;

struct FileStep {
  RecipeStep step;
  std::vector<std::pair<std::string, std::string>> foreach;  // not yet spread
};

struct RecipeFile {
  std::string title;
  RecipeVariables variables;
  std::vector<FileStep> steps;
};

// The words of "a b", "a, b" or ["a", "b"].
std::vector<std::string> SplitWords(std::string text) {
  if (text.starts_with('[')) {
    Config list;
    list.Set("words", text);
    text = *list.AnyAsText("words");
  }
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c != ' ' && c != ',' && c != '\t' && c != '\n') {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

void RefuseUnknownKeys(const Config& config, std::string_view kind, const std::vector<std::string>& known) {
  for (const std::string& key : config.Keys()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      Throw<UsageError>("{}: {}", config.Where(key), UnknownNameMessage(kind, key, known));
    }
  }
}

void ReplaceVariable(std::string& text, const std::string& name, const std::string& value) {
  const std::string pattern = "${" + name + "}";
  for (size_t at = text.find(pattern); at != std::string::npos; at = text.find(pattern, at + value.size())) {
    text.replace(at, pattern.size(), value);
  }
}

// Replaces one variable everywhere in a step and leaves all others.
RecipeStep Substitute(RecipeStep step, const std::string& name, const std::string& value) {
  RecipeVariables one;
  one.Set(name, value);
  step.options_toml = one.ExpandToml(step.options_toml, step.where, true);
  for (std::string* text : {&step.name, &step.command, &step.script, &step.when, &step.unless, &step.provides}) {
    ReplaceVariable(*text, name, value);
  }
  for (auto* list : {&step.arguments, &step.inputs, &step.outputs}) {
    for (std::string& text : *list) ReplaceVariable(text, name, value);
  }
  return step;
}

// What the step runs. An inherited step keeps its options unless it gets another command.
void ReadAction(const Config& config, const fs::path& folder, RecipeStep& step) {
  if (config.Has("command") || config.Has("script")) {
    const std::string command = config.Text("command").value_or("");
    if (command.empty() || command != step.command) step.options_toml.clear();
    step.command = command;
    step.script = config.Text("script").value_or("");
    step.script_dir = folder;
    step.arguments.clear();
  }
  if (step.command.empty() == step.script.empty()) {
    Throw<UsageError>("{}: step '{}' needs either a command or a script", step.where, step.name);
  }
  if (const char* wrong = step.script.empty() ? "arguments" : "options"; config.Has(wrong)) {
    Throw<UsageError>("{}: step '{}' has '{}'; a command takes options, a script arguments", config.Where(wrong),
                      step.name, wrong);
  }
  if (config.Has("arguments")) step.arguments = *config.Texts("arguments");
  if (config.Has("options")) step.options_toml = MergeToml(step.options_toml, config.Table("options").ToToml());
}

// Reads a step of the file over `inherited`, which is empty for a new one.
FileStep ReadStep(const Config& config, const fs::path& folder, FileStep inherited) {
  RefuseUnknownKeys(config, "step key",
                    {"name", "foreach", "command", "script", "arguments", "options", "inputs", "outputs", "when",
                     "unless", "provides", "always", "before", "like"});
  RecipeStep& step = inherited.step;
  step.where = config.Where();
  step.name = config.RequiredText("name");
  ReadAction(config, folder, step);
  if (config.Has("inputs")) step.inputs = *config.Texts("inputs");
  if (config.Has("outputs")) step.outputs = *config.Texts("outputs");
  step.always = config.Bool("always").value_or(step.always);
  if (step.outputs.empty() && !step.always) {
    Throw<UsageError>("{}: step '{}' names no outputs; without them nobody can tell whether it is finished", step.where,
                      step.name);
  }
  step.when = config.AnyAsText("when").value_or(step.when);
  step.unless = config.AnyAsText("unless").value_or(step.unless);
  step.provides = config.Text("provides").value_or(step.provides);
  step = Substitute(std::move(step), "recipe_dir", folder.string());
  if (config.Has("foreach")) {
    inherited.foreach.clear();
    const Config foreach = config.Table("foreach");
    for (const std::string& name : foreach.Keys()) inherited.foreach.emplace_back(name, *foreach.AnyAsText(name));
  }
  return inherited;
}

void RefuseTwin(const std::string& where, const RecipeStep& twin) {
  Throw<UsageError>("{}: a second step '{}' (the first is at {})", where, twin.name, twin.where);
}

// Adds the steps of one file to those that it inherited: a known name changes that step where it stands.
void ReadSteps(const Config& config, const fs::path& folder, std::vector<FileStep>& steps) {
  std::vector<FileStep> own;
  const auto named = [](std::vector<FileStep>& list, const std::string& name) {
    return std::find_if(list.begin(), list.end(), [&](const FileStep& s) { return s.step.name == name; });
  };
  const auto existing = [&](const std::string& name, const std::string& where) {
    const auto step = named(steps, name);
    if (step != steps.end()) return step;
    std::vector<std::string> names;
    for (const FileStep& s : steps) names.push_back(s.step.name);
    Throw<UsageError>("{}: {}", where, UnknownNameMessage("step", name, names));
  };
  for (const Config& table : config.Tables("step")) {
    const std::string name = table.RequiredText("name");
    const auto inherited = named(steps, name);
    const bool is_new = inherited == steps.end();
    const auto like = table.Text("like");
    if (const auto twin = named(own, name); twin != own.end()) RefuseTwin(table.Where(), twin->step);
    if (like && !table.Has("outputs")) {
      Throw<UsageError>("{}: step '{}' needs outputs of its own, beside those of '{}'", table.Where("like"), name,
                        *like);
    }
    if (like && !is_new) {
      Throw<UsageError>("{}: step '{}' is inherited and cannot be like another", table.Where("like"), name);
    }
    FileStep begun;
    if (!is_new) begun = *inherited;
    if (like) begun = *existing(*like, table.Where("like"));
    FileStep read = ReadStep(table, folder, std::move(begun));
    own.push_back(read);
    const auto before = table.Text("before");
    if (!is_new) {
      if (before) Throw<UsageError>("{}: step '{}' is inherited and keeps its place", table.Where("before"), name);
      *inherited = std::move(read);
    } else if (!before) {
      steps.push_back(std::move(read));
    } else {
      steps.insert(existing(*before, table.Where("before")), std::move(read));
    }
  }
}

// `including` are the files on the way here.
RecipeFile ReadFileWithIncludes(const fs::path& path, std::vector<fs::path> including) {
  const Config config = Config::Load(path);
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  RefuseUnknownKeys(config, "recipe key", {"title", "include", "vars", "step"});
  RecipeFile file;
  including.push_back(path);
  if (const auto include = config.Text("include")) {
    const fs::path base = path.parent_path() / *include;
    const auto same = [&](const fs::path& other) { return fs::equivalent(base, other); };
    if (!fs::is_regular_file(base)) {
      Throw<UsageError>("{}: cannot include '{}': there is no file '{}'", config.Where("include"), *include,
                        base.string());
    }
    if (std::any_of(including.begin(), including.end(), same)) {
      std::string circle;
      for (const fs::path& step : including) circle += step.string() + " → ";
      Throw<UsageError>("{}: recipes include each other in a circle: {}{}", config.Where("include"), circle,
                        base.string());
    }
    file = ReadFileWithIncludes(base, including);
  }
  file.title = config.Text("title").value_or(path.stem().string());
  const Config vars = config.Table("vars");
  for (const std::string& name : vars.Keys()) {
    std::string value = ValueAsToml(vars, name);
    ReplaceVariable(value, "recipe_dir", folder.string());
    file.variables.Set(name, std::move(value));
  }
  ReadSteps(config, folder, file.steps);
  if (file.steps.empty()) Throw<UsageError>("{}: the recipe has no [[step]]", config.Where());
  return file;
}

// Every step once per word of its foreach.
std::vector<RecipeStep> SpreadSteps(const std::vector<FileStep>& steps, const RecipeVariables& variables) {
  std::vector<RecipeStep> all;
  for (const FileStep& file_step : steps) {
    std::vector<RecipeStep> copies = {file_step.step};
    for (const auto& [name, list] : file_step.foreach) {
      std::vector<RecipeStep> spread;
      for (const std::string& value : SplitWords(variables.Expand(list, file_step.step.where))) {
        for (const RecipeStep& copy : copies) spread.push_back(Substitute(copy, name, value));
      }
      copies = std::move(spread);
    }
    for (RecipeStep& copy : copies) {
      const auto twin = std::find_if(all.begin(), all.end(), [&](const auto& s) { return s.name == copy.name; });
      if (twin != all.end()) RefuseTwin(copy.where, *twin);
      all.push_back(std::move(copy));
    }
  }
  return all;
}

void ApplyStepOption(std::vector<RecipeStep>& steps, const std::string& step_name, const std::string& option,
                     const std::string& value) {
  std::vector<std::string> names;
  for (RecipeStep& step : steps) {
    names.push_back(step.name);
    if (step.name != step_name) continue;
    if (step.command.empty())
      Throw<UsageError>("--set {}.{}: the step runs a script, which takes no options", step_name, option);
    Config options = Config::Parse(step.options_toml, step.where);
    options.Set(option, value);
    step.options_toml = options.ToToml();
    return;
  }
  throw UsageError("--set: " + UnknownNameMessage("step", step_name, names));
}

}  // namespace

void SetOptionOfAll(Recipe& recipe, const std::string& option, const std::string& value) {
  for (RecipeStep& step : recipe.steps) {
    if (step.command.empty()) continue;
    Config options = Config::Parse(step.options_toml, step.where);
    if (options.Has(option)) continue;
    options.Set(option, value);
    step.options_toml = options.ToToml();
  }
}

Recipe LoadRecipe(const fs::path& path, const std::vector<std::string>& assignments) {
  RecipeFile file = ReadFileWithIncludes(path, {});
  Recipe recipe;
  recipe.path = path;
  recipe.title = file.title;
  recipe.variables = std::move(file.variables);
  if (!recipe.variables.Has("exp")) recipe.variables.Set("exp", "exp/" + path.stem().string());
  recipe.variables.Set("recipe_dir", path.has_parent_path() ? path.parent_path().string() : ".");
  recipe.variables.Set("threads", std::to_string(std::max(1u, std::thread::hardware_concurrency())));

  std::vector<std::array<std::string, 3>> step_options;
  for (const std::string& assignment : assignments) {
    const size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0) Throw<UsageError>("--set takes NAME=VALUE, found '{}'", assignment);
    const std::string name = assignment.substr(0, equals), value = assignment.substr(equals + 1);
    recipe.told[name] = value;
    if (const size_t dot = name.find('.'); dot != std::string::npos) {
      step_options.push_back({name.substr(0, dot), name.substr(dot + 1), value});
    } else if (recipe.variables.Has(name)) {
      recipe.variables.Set(name, value);
    } else {
      throw UsageError("--set: " + UnknownNameMessage("variable", name, recipe.variables.Names()));
    }
  }
  recipe.steps = SpreadSteps(file.steps, recipe.variables);
  for (const auto& [step, option, value] : step_options) ApplyStepOption(recipe.steps, step, option, value);
  return recipe;
}

}  // namespace antiphon::recipe
