#include <algorithm>
#include <sstream>

#include "command_line.h"

namespace antiphon::app {
namespace {

constexpr size_t kFlagWidth = 34;
constexpr size_t kWidth = 118;

std::string Upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

// Breaks text into lines of at most kWidth columns, the further ones indented.
std::string Wrapped(const std::string& text, size_t indent) {
  std::string wrapped;
  size_t line_start = 0;
  std::istringstream words(text.substr(text.find_first_not_of(' ')));
  wrapped.assign(text.find_first_not_of(' '), ' ');
  bool first = true;
  for (std::string word; words >> word; first = false) {
    if (!first && wrapped.size() - line_start + 1 + word.size() > kWidth) {
      wrapped += "\n" + std::string(indent, ' ');
      line_start = wrapped.size() - indent;
    } else if (!first) {
      wrapped += ' ';
    }
    wrapped += word;
  }
  return wrapped;
}

std::string OptionLine(const OptionDescription& option) {
  std::string flag = option.default_value == "true" ? "  --[no-]" + option.name : "  --" + option.name;
  if (option.type != "true|false") flag += " " + Upper(option.type.starts_with("list") ? "list" : option.type);
  std::string help = option.help;
  std::string notes = option.limits;
  const std::string& value = option.default_value;
  if (!value.empty() && value != "\"\"" && value != "[]" && value != "false") {
    notes += (notes.empty() ? "" : "; ") + fmt::format("default {}", value);
  }
  if (!notes.empty()) help += " (" + notes + ")";
  const std::string column(kFlagWidth + 1, ' ');
  if (flag.size() > kFlagWidth) return flag + "\n" + Wrapped(column + help, kFlagWidth + 1) + "\n";
  return fmt::format("{:<{}}", flag, kFlagWidth + 1) + Wrapped(column + help, kFlagWidth + 1).substr(kFlagWidth + 1) +
         "\n";
}

std::string Indented(const std::string& text) {
  std::string indented = "  ";
  for (const char c : text) {
    indented += c;
    if (c == '\n') indented += "  ";
  }
  return indented + "\n";
}

std::string CommandLines(std::string_view prefix) {
  std::string lines;
  for (const std::string& name : CommandRegistry::Get().Names()) {
    if (!name.starts_with(prefix)) continue;
    lines += fmt::format("  {:<18} {}\n", name, CommandRegistry::Get().Create(name)->info().summary);
  }
  return lines;
}

}  // namespace

std::string ProgramHelp() {
  return fmt::format(
      "antiphon: trains the acoustic models of speech recognisers, and recognises with them.\n\n"
      "Usage: antiphon COMMAND [arguments] [--options]\n\nCommands:\n{}\n"
      "antiphon COMMAND --help shows a command's options and an example.\n",
      CommandLines(""));
}

std::string GroupHelp(std::string_view group) {
  const std::string lines = CommandLines(fmt::format("{} ", group));
  if (lines.empty()) return "";
  return fmt::format("Usage: antiphon {} COMMAND [--options]\n\nCommands:\n{}", group, lines);
}

std::string CommandHelp(std::string_view name, const Command& command) {
  const CommandInfo& info = command.info();
  std::string usage = fmt::format("Usage: antiphon {}", name);
  for (const std::string& positional : info.positionals) {
    const bool required = std::find(info.required.begin(), info.required.end(), positional) != info.required.end();
    usage += required ? " " + Upper(positional) : " [" + Upper(positional) + "]";
  }
  std::string text = fmt::format("{}: {}.\n\n{} [--options]\n", name, info.summary, usage);
  if (!info.description.empty()) text += "\n" + Wrapped(info.description, 0) + "\n";
  text += "\nExample:\n" + Indented(info.example);
  const auto options = command.options();
  if (!options.empty()) text += "\nOptions (also keys of the configuration file):\n";
  for (const OptionDescription& option : options) text += OptionLine(option);
  for (const std::string& table : info.tables) {
    text += fmt::format("  {:<{}} {}\n", "[" + table + "]", kFlagWidth - 2,
                        "a table of the configuration file; --set " + table + ".KEY=VALUE");
  }
  text += "\nEvery command:\n";
  for (const OptionDescription& common : DescribeOptions<CommonOptions>()) {
    const bool own = std::any_of(options.begin(), options.end(), [&](const auto& o) { return o.name == common.name; });
    if (!own) text += OptionLine(common);
  }
  text += OptionLine({"config", "file", "", "", "TOML file with any of these keys"});
  text += OptionLine({"set", "key=value", "", "", "sets one key over the file (may be repeated)"});
  text += OptionLine({"quiet", "true|false", "", "", "only warnings and errors"});
  text += OptionLine({"verbose", "true|false", "", "", "more about what happens"});
  return text;
}

std::string VersionText() { return fmt::format("antiphon {}\n", ANTIPHON_VERSION); }

}  // namespace antiphon::app
