#include "recipe/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/file.h"

namespace antiphon::recipe {
namespace {

namespace fs = std::filesystem;

constexpr char kFile[] = "settings.json";
constexpr char kItsDefault[] = "(its default)";

// These change where and how fast, not what.
bool Matters(const std::string& name) {
  static const std::set<std::string> kPlaces = {"exp", "threads"};
  return !kPlaces.contains(name);
}

std::map<std::string, std::string> LoadSettings(const fs::path& state_dir) {
  if (!fs::exists(state_dir / kFile)) return {};
  const auto json = nlohmann::json::parse(ReadFile(state_dir / kFile), nullptr, false);
  std::map<std::string, std::string> settings;
  for (const auto& [name, value] : json.items()) {
    if (value.is_string()) settings[name] = value.get<std::string>();
  }
  return settings;
}

// The value that a name has in this run; nullopt if the recipe does not know the name.
std::optional<std::string> ValueNow(const Recipe& recipe, const std::string& name) {
  if (recipe.variables.Has(name)) return recipe.variables.Expand("${" + name + "}", recipe.path.string(), true);
  const size_t dot = name.find('.');
  const auto step = std::find_if(recipe.steps.begin(), recipe.steps.end(),
                                 [&](const RecipeStep& s) { return s.name == name.substr(0, dot); });
  if (dot == std::string::npos || step == recipe.steps.end() || step->command.empty()) return std::nullopt;
  const Config options = Config::Parse(step->options_toml, step->where);
  return options.AnyAsText(name.substr(dot + 1)).value_or(kItsDefault);
}

// As a value of the recipe would be written.
std::string Normal(const Recipe& recipe, const std::string& value) {
  Config one;
  one.Set("value", recipe.variables.Expand(value, recipe.path.string(), true));
  return *one.AnyAsText("value");
}

}  // namespace

void RequireSettingsSaid(const Recipe& recipe, const fs::path& state_dir) {
  for (const auto& [name, before] : LoadSettings(state_dir)) {
    if (!Matters(name) || recipe.told.contains(name)) continue;
    const bool is_seed = name == kSeedSetting;
    const std::optional<std::string> now = is_seed ? std::optional<std::string>("1") : ValueNow(recipe, name);
    if (!now || *now == before || Normal(recipe, *now) == Normal(recipe, before)) continue;
    const std::string flag = is_seed ? "--seed " : fmt::format("--set {}=", name);
    const bool named = *now != kItsDefault;
    Throw<UsageError>(
        "'{}' was made with {}{}, which this run does not say; {}, and with it the results there would be replaced. "
        "Say {}{} to go on with them, {}{} to make them anew, or give this run another folder with --set exp=DIR",
        state_dir.parent_path().string(), flag, before,
        named ? "the recipe's own value is " + *now : "the recipe leaves it to the command's default", flag, before,
        flag, named ? *now : "DEFAULT (antiphon help tells it)");
  }
}

void RememberSettings(const Recipe& recipe, const fs::path& state_dir) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [name, value] : recipe.told) {
    if (Matters(name)) json[name] = value;
  }
  WriteFileAtomically(state_dir / kFile, json.dump(1) + "\n");
}

}  // namespace antiphon::recipe
