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

std::string SummaryLine(const std::string& name) {
  return fmt::format("  {:<18} {}\n", name, CommandRegistry::Get().Create(name)->info().summary);
}

// Commands as a person meets them; what is not named here stands under the last heading.
struct Heading {
  const char* title;
  std::vector<std::string> commands;
};
const std::vector<Heading>& Headings() {
  static const std::vector<Heading> headings = {
      {"From recordings to words",
       {"run", "prepare", "split", "decode", "listen", "transcribe", "serve", "score", "report", "bundle"}},
      {"The steps of a recipe",
       {"features", "ivectors", "align", "pronunciations", "store", "size", "train", "chain", "lattices", "gmm-bmmi",
        "lm", "graph"}},
      {"Better and smaller models", {"adapt", "compress", "targets", "ensemble", "learning-rate", "sweep", "export"}},
      {"Words and speech",
       {"g2p train", "g2p apply", "g2p evaluate", "written train", "written apply", "written rules", "vad", "samples"}},
      {"Many workers", {"compare", "plan", "simulate", "top", "resize"}},
      {"Machine and files", {"doctor", "info"}}};
  return headings;
}

// Groups of options by the table in which they stand; "" for those in none.
std::vector<std::pair<std::string, std::vector<OptionDescription>>> ByTable(
    const std::vector<OptionDescription>& options) {
  std::vector<std::pair<std::string, std::vector<OptionDescription>>> groups;
  for (const OptionDescription& option : options) {
    const size_t dot = option.name.rfind('.');
    const std::string table = dot == std::string::npos ? "" : option.name.substr(0, dot);
    const auto it = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == table; });
    (it == groups.end() ? groups.emplace_back(table, std::vector<OptionDescription>()) : *it).second.push_back(option);
  }
  return groups;
}

bool Holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Those that a person needs first; all where they are few.
std::vector<OptionDescription> CommonOnes(const CommandInfo& info, const std::vector<OptionDescription>& options) {
  constexpr size_t kFew = 24;
  if (info.common.empty() && options.size() <= kFew) return options;
  std::vector<OptionDescription> common;
  for (const OptionDescription& option : options) {
    const bool wanted =
        Holds(info.common, option.name) || Holds(info.positionals, option.name) || Holds(info.required, option.name);
    if (wanted || (info.common.empty() && option.name.find('.') == std::string::npos)) common.push_back(option);
  }
  return common;
}

std::string OptionLines(const CommandInfo& info, const std::vector<OptionDescription>& options, bool all) {
  std::string text;
  if (all) {
    for (const auto& [table, group] : ByTable(options)) {
      text += table.empty() ? "\nOptions (also keys of the configuration file):\n"
                            : fmt::format("\nOptions of [{}]:\n", table);
      for (const OptionDescription& option : group) text += OptionLine(option);
    }
    return text;
  }
  const std::vector<OptionDescription> common = CommonOnes(info, options);
  if (!common.empty()) text += "\nOptions (also keys of the configuration file):\n";
  for (const OptionDescription& option : common) text += OptionLine(option);
  if (common.size() < options.size()) {
    text += fmt::format("  and {} more, which --help all shows\n", options.size() - common.size());
  }
  return text;
}

}  // namespace

std::string ProgramHelp() {
  std::string commands;
  std::vector<std::string> shown;
  for (const Heading& heading : Headings()) {
    commands += fmt::format("\n{}:\n", heading.title);
    for (const std::string& name : heading.commands) {
      if (CommandRegistry::Get().Has(name)) commands += SummaryLine(name);
      shown.push_back(name);
    }
  }
  for (const std::string& name : CommandRegistry::Get().Names()) {
    if (!Holds(shown, name)) commands += SummaryLine(name);
  }
  return fmt::format(
      "antiphon: trains the acoustic models of speech recognisers, and recognises with them.\n\n"
      "Usage: antiphon COMMAND [arguments] [--options]\n{}\n"
      "antiphon COMMAND --help shows a command's common options and an example, --help all every option.\n",
      commands);
}

std::string GroupHelp(std::string_view group) {
  std::string lines;
  for (const std::string& name : CommandRegistry::Get().Names()) {
    if (name.starts_with(fmt::format("{} ", group))) lines += SummaryLine(name);
  }
  if (lines.empty()) return "";
  return fmt::format("Usage: antiphon {} COMMAND [--options]\n\nCommands:\n{}", group, lines);
}

std::string CommandHelp(std::string_view name, const Command& command, bool all) {
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
  text += OptionLines(info, options, all);
  if (!info.tables.empty()) text += "\nTables of the configuration file:\n";
  for (const std::string& table : info.tables) {
    text += fmt::format("  {:<{}} {}\n", "[" + table + "]", kFlagWidth - 2, "--set " + table + ".KEY=VALUE");
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
  text += OptionLine({"check-options", "true|false", "", "", "check command line and configuration, and run nothing"});
  return text;
}

std::string VersionText() { return fmt::format("antiphon {}\n", ANTIPHON_VERSION); }

}  // namespace antiphon::app
