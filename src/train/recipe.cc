#include "train/recipe.h"

#include <algorithm>
#include <array>
#include <regex>
#include <thread>

#include "base/error.h"
#include "base/suggest.h"

namespace antiphon::train {
namespace {

constexpr int kMaxDepth = 20;  // of variables that refer to variables

std::vector<std::string> SplitWords(std::string_view text) {
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

bool IsTomlValue(const std::string& text) {
  static const std::regex pattern(R"(true|false|\[[^\]]*\]|[+-]?\d+(\.\d+)?([eE][+-]?\d+)?)");
  return std::regex_match(text, pattern);
}

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  out += '"';
  return out;
}

RecipeStep ReadStep(const Config& config) {
  RefuseUnknownKeys(config, "step key",
                    {"name", "foreach", "command", "script", "arguments", "options", "inputs", "outputs", "when",
                     "unless", "provides", "always"});
  RecipeStep step;
  step.where = config.Where();
  step.name = config.RequiredText("name");
  step.command = config.Text("command").value_or("");
  step.script = config.Text("script").value_or("");
  if (step.command.empty() == step.script.empty()) {
    Throw<UsageError>("{}: step '{}' needs either a command or a script", step.where, step.name);
  }
  step.arguments = config.Texts("arguments").value_or(std::vector<std::string>{});
  if (const char* wrong = step.script.empty() ? "arguments" : "options"; config.Has(wrong)) {
    Throw<UsageError>("{}: step '{}' has '{}'; a command takes options, a script arguments", config.Where(wrong),
                      step.name, wrong);
  }
  if (config.Has("options")) step.options_toml = config.Table("options").ToToml();
  step.inputs = config.Texts("inputs").value_or(std::vector<std::string>{});
  step.outputs = config.Texts("outputs").value_or(std::vector<std::string>{});
  step.always = config.Bool("always").value_or(false);
  if (step.outputs.empty() && !step.always) {
    Throw<UsageError>("{}: step '{}' names no outputs; without them nobody can tell whether it is finished", step.where,
                      step.name);
  }
  step.when = config.AnyAsText("when").value_or("");
  step.unless = config.AnyAsText("unless").value_or("");
  step.provides = config.Text("provides").value_or("");
  return step;
}

// Replaces one variable everywhere in a step and leaves all others.
RecipeStep Substitute(RecipeStep step, const std::string& name, const std::string& value) {
  const std::string pattern = "${" + name + "}";
  const auto replace = [&](std::string& text) {
    for (size_t at = text.find(pattern); at != std::string::npos; at = text.find(pattern, at + value.size())) {
      text.replace(at, pattern.size(), value);
    }
  };
  for (std::string* text :
       {&step.name, &step.command, &step.script, &step.options_toml, &step.when, &step.unless, &step.provides}) {
    replace(*text);
  }
  for (auto* list : {&step.arguments, &step.inputs, &step.outputs}) std::for_each(list->begin(), list->end(), replace);
  return step;
}

std::vector<RecipeStep> ReadSteps(const Config& config, const RecipeVariables& variables) {
  std::vector<RecipeStep> steps;
  for (const Config& table : config.Tables("step")) {
    std::vector<RecipeStep> copies = {ReadStep(table)};
    const Config foreach = table.Table("foreach");
    for (const std::string& name : foreach.Keys()) {
      std::vector<RecipeStep> spread;
      for (const std::string& value : SplitWords(variables.Expand(*foreach.AnyAsText(name), foreach.Where(name)))) {
        for (const RecipeStep& copy : copies) spread.push_back(Substitute(copy, name, value));
      }
      copies = std::move(spread);
    }
    for (RecipeStep& copy : copies) {
      const auto twin = std::find_if(steps.begin(), steps.end(), [&](const auto& s) { return s.name == copy.name; });
      if (twin != steps.end()) {
        Throw<UsageError>("{}: a second step '{}' (the first is at {})", copy.where, copy.name, twin->where);
      }
      steps.push_back(std::move(copy));
    }
  }
  if (steps.empty()) Throw<UsageError>("{}: the recipe has no [[step]]", config.Where());
  return steps;
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

std::vector<std::string> RecipeVariables::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : values_) names.push_back(name);
  return names;
}

std::string RecipeVariables::Expand(std::string_view text, const std::string& where, bool keep_unknown) const {
  return Expand(text, where, keep_unknown, 0);
}

std::string RecipeVariables::Expand(std::string_view text, const std::string& where, bool keep_unknown,
                                    int depth) const {
  if (depth > kMaxDepth) Throw<UsageError>("{}: the variables in '{}' refer to each other in a circle", where, text);
  std::string out;
  while (true) {
    const size_t begin = text.find("${");
    out += text.substr(0, begin);
    if (begin == std::string_view::npos) return out;
    const size_t end = text.find('}', begin);
    if (end == std::string_view::npos) Throw<UsageError>("{}: '${{' without '}}' in '{}'", where, text);
    const std::string name(text.substr(begin + 2, end - begin - 2));
    if (const auto it = values_.find(name); it != values_.end()) {
      out += Expand(it->second, where, keep_unknown, depth + 1);
    } else if (keep_unknown) {
      out += text.substr(begin, end + 1 - begin);
    } else {
      Throw<UsageError>("{}: {}", where, UnknownNameMessage("variable", name, Names()));
    }
    text.remove_prefix(end + 1);
  }
}

std::string RecipeVariables::ExpandToml(std::string_view toml, const std::string& where, bool keep_unknown) const {
  static const std::regex whole(R"((["'])\$\{([^}]*)\}\1)");
  const std::string source(toml);
  std::string out;
  auto rest = source.cbegin();
  for (std::sregex_iterator match(source.begin(), source.end(), whole), end; match != end; ++match) {
    out.append(rest, (*match)[0].first);
    const std::string value = Expand("${" + (*match)[2].str() + "}", where, keep_unknown);
    out += IsTomlValue(value) ? value : Quoted(value);
    rest = (*match)[0].second;
  }
  out.append(rest, source.cend());
  return Expand(out, where, keep_unknown);
}

Recipe LoadRecipe(const std::filesystem::path& path, const std::vector<std::string>& assignments) {
  const Config config = Config::Load(path);
  RefuseUnknownKeys(config, "recipe key", {"title", "vars", "step"});
  Recipe recipe;
  recipe.path = path;
  recipe.title = config.Text("title").value_or(path.stem().string());
  const Config vars = config.Table("vars");
  for (const std::string& name : vars.Keys()) recipe.variables.Set(name, *vars.AnyAsText(name));
  if (!recipe.variables.Has("exp")) recipe.variables.Set("exp", "exp/" + path.stem().string());
  recipe.variables.Set("recipe_dir", path.has_parent_path() ? path.parent_path().string() : ".");
  recipe.variables.Set("threads", std::to_string(std::max(1u, std::thread::hardware_concurrency())));

  std::vector<std::array<std::string, 3>> step_options;
  for (const std::string& assignment : assignments) {
    const size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0) Throw<UsageError>("--set takes NAME=VALUE, found '{}'", assignment);
    const std::string name = assignment.substr(0, equals), value = assignment.substr(equals + 1);
    if (const size_t dot = name.find('.'); dot != std::string::npos) {
      step_options.push_back({name.substr(0, dot), name.substr(dot + 1), value});
    } else if (recipe.variables.Has(name)) {
      recipe.variables.Set(name, value);
    } else {
      throw UsageError("--set: " + UnknownNameMessage("variable", name, recipe.variables.Names()));
    }
  }
  recipe.steps = ReadSteps(config, recipe.variables);
  for (const auto& [step, option, value] : step_options) ApplyStepOption(recipe.steps, step, option, value);
  return recipe;
}

RecipeStep ExpandStep(const RecipeStep& step, const RecipeVariables& variables, bool keep_unknown) {
  RecipeStep out = step;
  const auto expand = [&](std::string& text) { text = variables.Expand(text, step.where, keep_unknown); };
  for (std::string* text : {&out.name, &out.command, &out.script, &out.when, &out.unless, &out.provides}) {
    expand(*text);
  }
  for (auto* list : {&out.arguments, &out.inputs, &out.outputs}) std::for_each(list->begin(), list->end(), expand);
  out.options_toml = variables.ExpandToml(step.options_toml, step.where, keep_unknown);
  return out;
}

bool IsTrue(std::string_view text) { return !(text.empty() || text == "false" || text == "no" || text == "0"); }

}  // namespace antiphon::train
