#include "recipe/recipe.h"

#include <algorithm>
#include <regex>

#include "base/error.h"
#include "base/merge_toml.h"
#include "base/suggest.h"
#include "base/toml_text.h"

namespace antiphon::recipe {
namespace {

constexpr int kMaxDepth = 20;  // of variables that refer to variables

bool IsTomlValue(const std::string& text) {
  static const std::regex pattern(R"(true|false|\[[^\]]*\]|[+-]?\d+(\.\d+)?([eE][+-]?\d+)?)");
  if (!std::regex_match(text, pattern)) return false;
  try {
    Config::Parse("value = " + text, "");
    return true;
  } catch (const Error&) {
    return false;  // "01", "[unk]"
  }
}

// Where the brace that was opened before `at` closes; npos if it does not.
size_t ClosingBrace(std::string_view text, size_t at) {
  for (int open = 1; at < text.size(); ++at) {
    if (text[at] == '{') ++open;
    if (text[at] == '}' && --open == 0) return at;
  }
  return std::string_view::npos;
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
    const size_t end = ClosingBrace(text, begin + 2);
    if (end == std::string_view::npos) Throw<UsageError>("{}: '${{' without '}}' in '{}'", where, text);
    const std::string_view inside = text.substr(begin + 2, end - begin - 2);
    const size_t condition = inside.find(":+");
    const std::string name(inside.substr(0, condition));
    if (const auto it = values_.find(name); it != values_.end()) {
      const std::string value = Expand(it->second, where, keep_unknown, depth + 1);
      if (condition == std::string_view::npos) {
        out += value;
      } else if (IsTrue(value)) {
        out += Expand(inside.substr(condition + 2), where, keep_unknown, depth + 1);
      }
    } else if (keep_unknown) {
      out += text.substr(begin, end + 1 - begin);
    } else {
      Throw<UsageError>("{}: {}", where, UnknownNameMessage("variable", name, Names()));
    }
    text.remove_prefix(end + 1);
  }
}

std::string RecipeVariables::ExpandToml(std::string_view toml, const std::string& where, bool keep_unknown) const {
  if (toml.empty()) return "";
  return MapTomlTexts(toml, [&](const std::string& text) {
    const std::string value = Expand(text, where, keep_unknown);
    const bool whole = text.starts_with("${") && ClosingBrace(text, 2) == text.size() - 1;
    return whole && IsTomlValue(value) ? value : TomlString(value);
  });
}

namespace {

// Records of a step are files of its name.
void RequireFileName(const RecipeStep& step) {
  const bool odd = std::any_of(step.name.begin(), step.name.end(),
                               [](unsigned char c) { return c < 0x20 || c == 0x7f || c == '/'; });
  if (!odd && !step.name.empty() && step.name[0] != '.') return;
  Throw<UsageError>(
      "{}: '{}' cannot be the name of a step: files of that name are kept for it, so it may neither begin "
      "with '.' nor hold '/'",
      step.where, step.name);
}

}  // namespace

RecipeStep ExpandStep(const RecipeStep& step, const RecipeVariables& variables, bool keep_unknown) {
  RecipeStep out = step;
  const auto expand = [&](std::string& text) { text = variables.Expand(text, step.where, keep_unknown); };
  for (std::string* text : {&out.name, &out.command, &out.script, &out.when, &out.unless, &out.provides}) {
    expand(*text);
  }
  RequireFileName(out);
  for (auto* list : {&out.arguments, &out.inputs, &out.outputs}) std::for_each(list->begin(), list->end(), expand);
  std::erase(out.inputs, "");
  out.options_toml = variables.ExpandToml(step.options_toml, step.where, keep_unknown);
  if (!out.options_toml.empty()) {
    out.options_toml = KeepTomlTables(out.options_toml, "when", [](const std::string& text) { return IsTrue(text); });
  }
  return out;
}

bool IsTrue(std::string_view text) {
  for (const std::string_view no : {"", "false", "no", "0", "[]"}) {
    if (text == no) return false;
  }
  return true;
}

}  // namespace antiphon::recipe
