// From argv to a command and its configuration, and the help pages. All of it derives from the commands' own
// descriptions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "command.h"

namespace antiphon::app {

struct CommandLine {
  // kPrint: `text` is all there is to do (--help, --version); kCheck: only look whether it could run
  enum class Action { kRun, kPrint, kCheck };
  Action action = Action::kRun;
  std::string command;
  Config config;      // --config's file, --set over it, the flags over both
  int verbosity = 0;  // −1 quiet, 0, 1 verbose
  std::string text;
  bool all = false;  // --help all
};

/// Throws UsageError with the nearest known command or option.
CommandLine ParseCommandLine(std::span<const std::string> arguments);

/// The list of commands, the page of one command (with its common options, or all), the commands of a group ("bench").
std::string ProgramHelp();
std::string CommandHelp(std::string_view name, const Command& command, bool all);
std::string GroupHelp(std::string_view group);
std::string VersionText();
/// What the command line takes beside a command's options: --config, --set, --help …
std::vector<OptionDescription> OptionsOfTheLine();
/// Manual pages in roff: of the program, and of a command.
std::string ProgramManPage();
std::string ManPage(std::string_view name, const Command& command);
/// What completes command lines in "bash" or "zsh"; UsageError for another shell.
std::string Completion(std::string_view shell);
/// All commands and components with all their options, in Markdown: docs/reference/options.md.
std::string Reference();

}  // namespace antiphon::app
