// All options of all commands and components in Markdown, from the same descriptions as the help pages.
#include <algorithm>
#include <cctype>
#include <sstream>

#include "comm/cluster.h"
#include "command_line.h"
#include "nn/layer.h"
#include "train/component_options.h"

namespace antiphon::app {
namespace {

// Inside a cell of a table.
std::string Cell(const std::string& text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|' || c == '<' || c == '*' || c == '_') cell += '\\';
    cell += c;
  }
  return cell;
}

// A code span inside a cell, where only | has to be written otherwise.
std::string Code(const std::string& text) {
  std::string code = "`";
  for (const char c : text) code += c == '|' ? std::string("\\|") : std::string(1, c);
  return code + "`";
}

std::string Value(const OptionDescription& option) {
  const bool words = option.type == "text" && !option.limits.empty();
  if (!words) return option.type + (option.limits.empty() ? "" : ", " + option.limits);
  std::string names = option.limits;
  for (size_t at = 0; (at = names.find('|', at)) != std::string::npos; at += 2) names.replace(at, 1, ", ");
  return names;
}

std::string Table(const std::vector<OptionDescription>& options, const std::string& flag) {
  std::string text = "| Option | Value | Default | |\n|---|---|---|---|\n";
  for (const OptionDescription& option : options) {
    const std::string& value = option.default_value;
    const bool none = value.empty() || value == "\"\"" || value == "[]";
    text += fmt::format("| {} | {} | {} | {} |\n", Code(flag + option.name), Cell(Value(option)),
                        none ? "" : Code(value), Cell(option.help));
  }
  return text + "\n";
}

std::string Sentence(std::string text) {
  if (text.empty()) return text;
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text + (text.ends_with('.') ? "\n\n" : ".\n\n");
}

// Lines of at most 100 columns; Markdown joins them again.
std::string Filled(const std::string& text) {
  std::string filled;
  size_t column = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (column > 0 && column + 1 + word.size() > 100) {
      filled += '\n';
      column = 0;
    } else if (column > 0) {
      filled += ' ';
      ++column;
    }
    filled += word;
    column += word.size();
    at = end + 1;
  }
  return filled;
}

// Options in order, those of nested tables behind a line that names the table.
std::string ByTable(const std::vector<OptionDescription>& options, const std::string& flag) {
  std::vector<std::pair<std::string, std::vector<OptionDescription>>> groups;
  for (const OptionDescription& option : options) {
    const size_t dot = option.name.rfind('.');
    const std::string table = dot == std::string::npos ? "" : option.name.substr(0, dot);
    const auto it = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == table; });
    (it == groups.end() ? groups.emplace_back(table, std::vector<OptionDescription>()) : *it).second.push_back(option);
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.first.empty() > b.first.empty(); });
  std::string text;
  for (const auto& [table, group] : groups) {
    if (!table.empty()) text += fmt::format("Table `{}`:\n\n", table);
    text += Table(group, flag);
  }
  return text;
}

// Commands that are longer than a line of a page go on in the next, with an option.
std::string InLines(const std::string& commands) {
  constexpr size_t kColumns = 100;
  std::string text;
  std::istringstream lines(commands);
  for (std::string line; std::getline(lines, line);) {
    while (line.size() > kColumns) {
      const size_t end = line.rfind(" --", kColumns - 2);
      if (end == std::string::npos || line.find_first_not_of(' ') > end) break;
      text += line.substr(0, end) + " \\\n";
      line = "  " + line.substr(end + 1);
    }
    text += line + "\n";
  }
  return text;
}

std::string CommandSection(const std::string& name) {
  const auto command = CommandRegistry::Get().Create(name);
  const CommandInfo& info = command->info();
  std::string text = fmt::format("## antiphon {}\n\n", name);
  text += Filled(Sentence(info.summary + (info.description.empty() ? "." : ". " + info.description)));
  text += fmt::format("<!-- options only: from the help page -->\n```sh\n{}```\n\n", InLines(info.example));
  if (!info.positionals.empty()) {
    text += Filled(fmt::format("In this order without their names: `{}`.", fmt::join(info.positionals, "`, `")));
    text += "\n\n";
  }
  if (!info.required.empty()) {
    text += Filled(fmt::format("Required: `{}`.", fmt::join(info.required, "`, `"))) + "\n\n";
  }
  text += ByTable(command->options(), "--");
  if (!info.tables.empty()) {
    text += Filled(fmt::format("Also takes the tables `{}`.", fmt::join(info.tables, "`, `"))) + "\n\n";
  }
  return text;
}

// What all of a family take, whoever reads it; "": nothing.
std::string CommonKeys(const std::string& family) {
  if (family == "layer") {
    return "Every layer takes besides its own options those of the next table, and `name`, by which messages and model"
           " files call it. Layers that hold others take a list of their tables, `layers`; `ensemble` takes `members`.";
  }
  if (family == "strategy") {
    return "Every method takes besides: `workers` (1), their number; `world` (`threads`), `simulated` for a "
           "[simulation](../guides/simulation.md); `device-memory-mb`, MB of memory that a worker may use, beyond"
           " which a plan is refused (without it: not looked at).";
  }
  return "";
}

std::string FamilySection(const train::ComponentFamily& family) {
  std::string text = fmt::format("## {}\n\n{}.\n\n", family.title, Filled("Chosen by " + family.where));
  if (const std::string common = CommonKeys(family.name); !common.empty()) text += Filled(common) + "\n\n";
  if (family.name == "layer") text += ByTable(DescribeOptions<nn::CommonLayerOptions>(), "");
  for (const std::string& name : family.names) {
    const auto options = train::DescribeComponent(family, name);
    text += fmt::format("### {}: {}\n\n", family.name, name);
    text += options.empty() ? "No options of its own.\n\n" : ByTable(options, "");
  }
  return text;
}

std::string ClusterSection() {
  std::vector<OptionDescription> options = DescribeOptions<comm::ClusterOptions>();
  for (OptionDescription& option : options) option.name = "cluster." + option.name;
  return "## Simulated clusters\n\nThe machines of a [simulation](../guides/simulation.md).\n\n" + ByTable(options, "");
}

}  // namespace

std::string Reference() {
  std::string text =
      "# Options\n\n"
      "Written by `antiphon help --reference`; a test compares this page with what the program prints.\n\n"
      "Every option is a flag (`--beam 13`), a key of the file that `--config` names (`beam = 13.0`), and\n"
      "a key for `--set` (`--set beam=13`). A dot stands for a table: `--schedule.epochs 4` is\n"
      "`epochs = 4` in the table `[schedule]`. Switches that are on by default are turned off by\n"
      "`--no-NAME`. Lists take commas or are repeated: `--workers 2,4`. Flags win over `--set`, `--set`\n"
      "over the file.\n\n"
      "## Every command\n\n";
  std::vector<OptionDescription> common = DescribeOptions<CommonOptions>();
  for (OptionDescription& option : OptionsOfTheLine()) common.push_back(std::move(option));
  text += Table(common, "--");
  for (const std::string& name : CommandRegistry::Get().Names()) text += CommandSection(name);
  for (const train::ComponentFamily& family : train::ComponentFamilies()) text += FamilySection(family);
  text += ClusterSection();
  while (text.ends_with("\n\n")) text.pop_back();
  return text;
}

}  // namespace antiphon::app
