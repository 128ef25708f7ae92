#include <algorithm>

#include "command_line.h"

namespace antiphon::app {
namespace {

constexpr size_t kFlagWidth = 34;

std::string Upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

std::string OptionLine(const OptionDescription& option) {
  std::string flag = "  --" + option.name;
  if (option.type != "true|false") flag += " " + Upper(option.type.starts_with("list") ? "list" : option.type);
  std::string line = fmt::format("{:<{}} {}", flag, kFlagWidth, option.help);
  std::string notes = option.limits;
  const std::string& value = option.default_value;
  if (!value.empty() && value != "\"\"" && value != "[]" && value != "false") {
    notes += (notes.empty() ? "" : "; ") + fmt::format("default {}", value);
  }
  if (!notes.empty()) line += " (" + notes + ")";
  return line + "\n";
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
  if (!info.description.empty()) text += "\n" + info.description + "\n";
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
