// Manual pages in roff, from the same descriptions as the help pages: antiphon(1), and antiphon-COMMAND(1) for each.
#include <algorithm>

#include "command_line.h"

namespace antiphon::app {
namespace {

// Text of a person as roff reads it: no line begins a request, hyphens stay what they are.
std::string Roff(std::string_view text) {
  std::string roff;
  bool begins_line = true;
  for (const char c : text) {
    if (begins_line && (c == '.' || c == '\'')) roff += "\\&";
    if (c == '\\') {
      roff += "\\e";
    } else if (c == '-') {
      roff += "\\-";
    } else {
      roff += c;
    }
    begins_line = c == '\n';
  }
  return roff;
}

std::string InCapitals(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

std::string AsSentence(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text.ends_with('.') ? text : text + ".";
}

std::string Opening(const std::string& name, const std::string& summary) {
  return fmt::format(".TH \"{}\" 1 \"\" \"antiphon {}\" \"Antiphon\"\n.SH NAME\n{} \\- {}\n", Roff(InCapitals(name)),
                     ANTIPHON_VERSION, Roff(name), Roff(summary));
}

std::string OptionEntry(const OptionDescription& option) {
  std::string flag = option.default_value == "true" ? "--[no-]" + option.name : "--" + option.name;
  std::string text = fmt::format(".TP\n\\fB{}\\fR", Roff(flag));
  if (option.type != "true|false") text += fmt::format(" \\fI{}\\fR", Roff(option.type));
  std::string help = option.help;
  std::string notes = option.limits;
  const std::string& value = option.default_value;
  if (!value.empty() && value != "\"\"" && value != "[]" && value != "false") {
    notes += (notes.empty() ? "" : "; ") + fmt::format("default {}", value);
  }
  if (!notes.empty()) help += " (" + notes + ")";
  return text + "\n" + Roff(help) + "\n";
}

std::string OptionSection(const std::string& title, const std::vector<OptionDescription>& options) {
  std::string text = options.empty() ? "" : fmt::format(".SH {}\n", title);
  for (const OptionDescription& option : options) text += OptionEntry(option);
  return text;
}

std::string PageName(std::string name) {
  std::replace(name.begin(), name.end(), ' ', '-');
  return "antiphon-" + name;
}

std::string ExitStatus() {
  return ".SH EXIT STATUS\n0: done; 1: failed; 2: wrong usage; 3: stopped on request, with everything saved.\n";
}

}  // namespace

std::string ProgramManPage() {
  std::string text =
      Opening("antiphon", "trains the acoustic models of speech recognisers, and recognises with them") +
      ".SH SYNOPSIS\n\\fBantiphon\\fR \\fICOMMAND\\fR [\\fIarguments\\fR] [\\fI\\-\\-options\\fR]\n.SH COMMANDS\n";
  for (const std::string& name : CommandRegistry::Get().Names()) {
    text += fmt::format(".TP\n\\fBantiphon {}\\fR\n{} See \\fB{}\\fR(1).\n", Roff(name),
                        Roff(AsSentence(CommandRegistry::Get().Create(name)->info().summary)), Roff(PageName(name)));
  }
  return text + ExitStatus();
}

std::string ManPage(std::string_view name, const Command& command) {
  const CommandInfo& info = command.info();
  const auto required = [&](const std::string& option) {
    return std::find(info.required.begin(), info.required.end(), option) != info.required.end();
  };
  std::string text = Opening(PageName(std::string(name)), info.summary);
  text += fmt::format(".SH SYNOPSIS\n\\fBantiphon {}\\fR", Roff(name));
  for (const std::string& positional : info.positionals) {
    const std::string upper = Roff(InCapitals(positional));
    text += required(positional) ? fmt::format(" \\fI{}\\fR", upper) : fmt::format(" [\\fI{}\\fR]", upper);
  }
  text += " [\\fI\\-\\-options\\fR]\n";
  if (!info.description.empty()) text += ".SH DESCRIPTION\n" + Roff(info.description) + "\n";
  text += ".SH EXAMPLE\n.nf\n" + Roff(info.example) + "\n.fi\n";
  const auto options = command.options();
  text += OptionSection("OPTIONS", options);
  if (!info.tables.empty()) {
    text += ".SH TABLES\nOf the configuration file, or by \\fB\\-\\-set\\fR \\fITABLE.KEY=VALUE\\fR:";
    for (const std::string& table : info.tables) text += " " + Roff(table);
    text += ".\n";
  }
  std::vector<OptionDescription> common;
  for (OptionDescription& option : DescribeOptions<CommonOptions>()) {
    const bool own = std::any_of(options.begin(), options.end(), [&](const auto& o) { return o.name == option.name; });
    if (!own) common.push_back(std::move(option));
  }
  for (const OptionDescription& option : OptionsOfTheLine()) common.push_back(option);
  return text + OptionSection("OPTIONS OF EVERY COMMAND", common) + ExitStatus() +
         ".SH SEE ALSO\n\\fBantiphon\\fR(1)\n";
}

}  // namespace antiphon::app
